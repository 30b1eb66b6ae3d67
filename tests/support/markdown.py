"""Parser of documentation pages: code blocks, headings and links."""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[^`]*)$")
_HEADING = re.compile(r"#{1,6} +(?P<text>.*?) *#*$")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"`[^`]*`")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block."""

    page: Path
    line: int
    """Line number of the opening fence, from 1."""
    language: str
    """Text after the opening fence, or ""."""
    text: str
    """Lines between the fences, with their line ends."""

    @property
    def where(self) -> str:
        """Return the file and line of the block, such as `README.md:12`."""
        return f"{self.page}:{self.line}"


class Page:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = path.read_text(encoding="utf-8")

    def blocks(self) -> Iterator[Block]:
        """Yield the fenced code blocks in their order."""
        opened: re.Match[str] | None = None
        began, inside = 0, list[str]()
        for number, line in enumerate(self._text.splitlines(), start=1):
            fence = _FENCE.match(line)
            if opened is None:
                if fence:
                    opened, began, inside = fence, number, []
            elif fence and fence["fence"].startswith(opened["fence"]) and not fence["language"]:
                text = "".join(f"{each}\n" for each in inside)
                yield Block(self.path, began, opened["language"].strip(), text)
                opened = None
            else:
                inside.append(line.removeprefix(opened["indent"]))
        assert opened is None, f"{self.path}:{began}: this block has no end"

    def links(self) -> Iterator[str]:
        """Yield the targets of the links in their order."""
        for _, line in self._prose():
            yield from (match["target"] for match in _LINK.finditer(_CODE.sub("`", line)))

    def words(self) -> Iterator[str]:
        """Yield each `code` span of the text and tables, in order."""
        for _, line in self._prose():
            yield from (match[0].strip("`") for match in _CODE.finditer(line))

    def anchors(self) -> set[str]:
        """Return the anchors of the page's headings, as GitHub forms them."""
        seen = Counter[str]()
        found = set()
        for _, line in self._prose():
            if heading := _HEADING.match(line):
                text = _NOT_IN_ANCHORS.sub("", heading["text"].lower()).replace(" ", "-")
                found.add(f"{text}-{seen[text]}" if seen[text] else text)
                seen[text] += 1
        return found

    def _prose(self) -> Iterator[tuple[int, str]]:
        lines = self._text.splitlines()
        inside = set[int]()
        for block in self.blocks():
            inside.update(range(block.line, block.line + block.text.count("\n") + 2))
        return ((number, line) for number, line in enumerate(lines, start=1) if number not in inside)


PAGES = [
    Page(path)
    for place in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(Path().glob(place))
]
"""All pages of documentation in the repository."""


def code_of(page: Path, file: str) -> str:
    """Return the code of one file in a page: the text of all blocks whose first line is `# FILE`."""
    begin = f"# {file}\n"
    blocks = (each.text for each in Page(page).blocks())
    return "\n\n".join(text.removeprefix(begin) for text in blocks if text.startswith(begin))


def import_from(folder: Path, sources: Mapping[str, str]) -> list[ModuleType]:
    """Write modules into the folder and import them; their names must not be in use."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(name) for name in sources]
    finally:
        sys.path.remove(str(folder))
