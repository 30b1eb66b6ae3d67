from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.markdown import Page


def page(folder: Path, text: str) -> Page:
    path = folder / "page.md"
    path.write_text(text)
    return Page(path)


def test_blocks_have_their_line_language_and_text(tmp_path: Path):
    text = "# T\n\n```sh\nmake\n```\n\n- item\n  ```\n  indented\n    more\n  ```\n````md\n```\n````\n"
    found = [(each.line, each.language, each.text) for each in page(tmp_path, text).blocks()]
    assert found == [(3, "sh", "make\n"), (8, "", "indented\n  more\n"), (12, "md", "```\n")]


def test_a_block_without_an_end_is_told_of(tmp_path: Path):
    with pytest.raises(AssertionError, match=r"page\.md:2: this block has no end"):
        list(page(tmp_path, "\n```sh\nmake\n").blocks())


def test_links_are_those_of_the_prose(tmp_path: Path):
    text = "[a](b.md#c), [`d`](e) and `[f](g)`\n```\n[h](i)\n```\n![j](k.png) [l [m]](n)\n"
    assert list(page(tmp_path, text).links()) == ["b.md#c", "e", "k.png", "n"]


def test_words_are_the_code_spans_of_the_prose(tmp_path: Path):
    text = "`make test` and [`--flag`](x)\n```sh\n`no`\n```\n| `cell` |\n"
    assert list(page(tmp_path, text).words()) == ["make test", "--flag", "cell"]


def test_anchors_are_headings_as_viewers_name_them(tmp_path: Path):
    text = (
        "# A title: `code`, and more\n## 1. The model: `apis/<group>`\n## Twice\n## Twice\n```\n# none\n```\n"
    )
    assert page(tmp_path, text).anchors() == {
        "a-title-code-and-more",
        "1-the-model-apisgroup",
        "twice",
        "twice-1",
    }
