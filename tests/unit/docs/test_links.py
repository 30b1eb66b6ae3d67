"""Links lead somewhere, and examples can be read."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
import yaml

from tests.support.markdown import Block, Page
from tests.support.pages import PAGES

OUTSIDE = re.compile(r"https?://|mailto:")
EXAMPLES = [block for page in PAGES for block in page.blocks() if block.language in {"python", "yaml"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path))
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Page):
    for link in page.links():
        if OUTSIDE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.path.parent / path)) if path else page.path
        assert target.exists(), f"{page.path}: {link}"
        if anchor:
            assert anchor in Page(target).anchors(), f"{page.path}: {link}"


def test_every_page_is_found_from_the_readme():
    found, left = set[Path](), [Path("README.md")]
    while left:
        path = left.pop()
        found.add(path)
        for link in Page(path).links():
            target = Path(os.path.normpath(path.parent / link.partition("#")[0]))
            if target.suffix == ".md" and target.is_file() and target not in found:
                left.append(target)
    assert {page.path for page in PAGES} - found == set()


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_every_example_is_of_the_language_it_says(block: Block):
    if block.language == "yaml":
        assert yaml.safe_load(block.text)
    else:
        compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
