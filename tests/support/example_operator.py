"""The operator of docs/writing-an-operator.md, put together from the page alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.dockerfile import ROOT
from tests.support.markdown import Page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAGE = ROOT / "docs" / "writing-an-operator.md"
# What the page says to put into a new folder.
PACKAGE = '"""Greetings."""\n'
# A block that is a file says in its first line which.
_FILE = re.compile(r"# (?P<path>[\w./]+)(?P<how>, continued|, in OPERATORS|, at the top)?\n")
# After which line of a file that is there already a block goes, and how it is indented.
_PLACES = {", in OPERATORS": "OPERATORS = (", ", at the top": "import sys"}
_INDENTS = {", in OPERATORS": "    ", ", at the top": ""}


class ExampleOperator:
    """A copy of what operators are made of, with the files of the page in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("apis", "controllers", "config"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for block in Page(PAGE).blocks():
            if file := _FILE.match(block.text):
                self._put(file["path"], file["how"] or "", block.text[file.end() :])

    @property
    def environ(self) -> dict[str, str]:
        """With which Python finds the copy before what is installed."""
        return {"PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1"}

    @property
    def program(self) -> Sequence[str]:
        """`operator-manager` as it is with the operator in it."""
        return (sys.executable, "-m", "controllers.main")

    def run(self, *module: str) -> str:
        """What `python -m ...` prints; fails with all that it wrote."""
        done = subprocess.run(
            [sys.executable, "-m", *module],
            cwd=self.folder,
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _put(self, name: str, how: str, text: str) -> None:
        path = self.folder / name
        if how in _PLACES:
            place, line = _PLACES[how], f"{_INDENTS[how]}{text}"
            # A later line for the same operator is instead of the earlier one.
            same = line.partition(",")[0]
            kept = [each for each in path.read_text().splitlines(keepends=True) if not each.startswith(same)]
            at = next(number for number, each in enumerate(kept) if each.startswith(place))
            path.write_text("".join([*kept[: at + 1], line, *kept[at + 1 :]]))
            return
        # What is in the repository already is not what the page lets one write.
        assert how or not path.exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            for package in (path.parent, path.parent.parent):
                if not (package / "__init__.py").exists():
                    (package / "__init__.py").write_text(PACKAGE)
        with path.open("a") as file:
            file.write(f"\n\n{text}" if how else text)
