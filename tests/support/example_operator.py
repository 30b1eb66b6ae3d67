"""The operator of docs/writing-an-operator.md, built from the code in the documentation."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import indent

from tests.support import ROOT
from tests.support.markdown import Block, Page
from tests.support.tools import output_of

PAGE = ROOT / "docs" / "writing-an-operator.md"
WEBHOOKS_PAGE = ROOT / "docs" / "webhooks.md"
# Contents of a new folder's __init__.py.
PACKAGE = '"""Greetings."""\n'
# The first line of a block names its file.
_FILE = re.compile(r"# (?P<path>[\w./]+)(?P<how>, continued|, in the class|, at the top|, instead of \w+)?\n")


class ExampleOperator:
    """Copy of the project's operators, plus the files that a page of the documentation shows."""

    def __init__(self, folder: Path, more: Iterable[Block] = ()) -> None:
        """Create the copy in `folder`, with the files of `PAGE` and then the files in `more`."""
        self.folder = folder
        shutil.copytree(_created().name, folder, dirs_exist_ok=True)
        for block in (*Page(PAGE).blocks(), *more):
            if file := _FILE.match(block.text):
                self._put(file["path"], file["how"] or "", block.text[file.end() :])
        self.run(
            "ruff", "check", "--select=I", "--fix", "--quiet", f"--config={ROOT / 'pyproject.toml'}", "."
        )

    @property
    def environ(self) -> dict[str, str]:
        """Return environment variables that make Python import the copy instead of installed packages."""
        return _environ(self.folder)

    @property
    def program(self) -> Sequence[str]:
        """Return the command that runs `operator-manager` with the example's operator."""
        return (sys.executable, "-m", "controllers.main")

    def run(self, *module: str) -> str:
        """Return the output of `python -m MODULE ...` in the copy; fail with all output."""
        return _run(self.folder, *module)

    def _put(self, name: str, how: str, text: str) -> None:
        path = self.folder / name
        if how == ", at the top":
            path.write_text(_imported(path.read_text(), text))
            return
        if how.startswith(", instead of "):
            path.write_text(_assigned(path.read_text(), how.removeprefix(", instead of "), text))
            return
        # The page must not write a file that the repository already has.
        assert how or not (ROOT / name).exists(), f"{name} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (path.parent / "__init__.py").exists() and path.suffix == ".py":
            (path.parent / "__init__.py").write_text(PACKAGE)
        if how == ", in the class":
            text = "\n" + indent(text, "    ")
        elif how:
            text = "\n\n" + text
        with path.open("a" if how else "w") as file:
            file.write(text)


def _environ(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def _run(folder: Path, *module: str) -> str:
    return output_of(sys.executable, "-m", *module, cwd=folder, environ={**os.environ, **_environ(folder)})


@functools.cache
def _created() -> tempfile.TemporaryDirectory[str]:
    kept = tempfile.TemporaryDirectory()
    folder = Path(kept.name)
    for name in ("apis", "controllers", "config"):
        shutil.copytree(ROOT / name, folder / name)  # with what is compiled
    shutil.copy(ROOT / "pyproject.toml", folder)
    create = re.search(r"^\S+ (create api .*)$", PAGE.read_text(), re.MULTILINE)
    assert create is not None
    _run(folder, "controllers.main", *create[1].split())
    return kept


def _imported(code: str, lines: str) -> str:
    """Insert import lines below the first import; `ruff` sorts them later."""
    first = "from __future__ import annotations\n"
    return code.replace(first, f"{first}\n{lines}", 1)


def _assigned(code: str, name: str, line: str) -> str:
    lines = code.splitlines(keepends=True)
    (at,) = (number for number, each in enumerate(lines) if each.strip().startswith(f"{name} = "))
    line = indent(line, lines[at][: -len(lines[at].lstrip())])
    return "".join([*lines[:at], line, *lines[at + 1 :]])
