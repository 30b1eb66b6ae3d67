"""The operator of docs/writing-an-operator.md, put together from that page, and from one that goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import indent

from tests.support.dockerfile import ROOT
from tests.support.markdown import Block, Page

PAGE = ROOT / "docs" / "writing-an-operator.md"
WEBHOOKS_PAGE = ROOT / "docs" / "webhooks.md"
# What each new folder needs.
PACKAGE = '"""Greetings."""\n'
# A block that is a file says in its first line which.
_FILE = re.compile(r"# (?P<path>[\w./]+)(?P<how>, continued|, in the class|, at the top|, instead of \w+)?\n")


class ExampleOperator:
    """A copy of what operators are made of, with the files of the page in it."""

    def __init__(self, folder: Path, more: Iterable[Block] = ()) -> None:
        """With those of `PAGE`, and then those that `more` has."""
        self.folder = folder
        for name in ("apis", "controllers", "config"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        create = re.search(r"^\S+ (create api .*)$", PAGE.read_text(), re.MULTILINE)
        assert create is not None
        self.run("controllers.main", *create[1].split())
        for block in (*Page(PAGE).blocks(), *more):
            if file := _FILE.match(block.text):
                self._put(file["path"], file["how"] or "", block.text[file.end() :])
        self.run(
            "ruff", "check", "--select=I", "--fix", "--quiet", f"--config={ROOT / 'pyproject.toml'}", "."
        )

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
        if how == ", at the top":
            path.write_text(_imported(path.read_text(), text))
            return
        if how.startswith(", instead of "):
            path.write_text(_assigned(path.read_text(), how.removeprefix(", instead of "), text))
            return
        # What is in the repository already is not what the page lets one write.
        assert how or not (ROOT / name).exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (path.parent / "__init__.py").exists() and path.suffix == ".py":
            (path.parent / "__init__.py").write_text(PACKAGE)
        if how == ", in the class":
            text = "\n" + indent(text, "    ")
        elif how:
            text = "\n\n" + text
        with path.open("a" if how else "w") as file:
            file.write(text)


def _imported(code: str, lines: str) -> str:
    """Put imports below the first one; `make fmt` sorts them."""
    first = "from __future__ import annotations\n"
    return code.replace(first, f"{first}\n{lines}", 1)


def _assigned(code: str, name: str, line: str) -> str:
    """Give a constant another value."""
    lines = code.splitlines(keepends=True)
    (at,) = (number for number, each in enumerate(lines) if each.strip().startswith(f"{name} = "))
    line = indent(line, lines[at][: -len(lines[at].lstrip())])
    return "".join([*lines[:at], line, *lines[at + 1 :]])
