"""Python source text of generated models, formatted by ruff."""

from __future__ import annotations

import inspect
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

LINE_WIDTH = 110
_STEP = 4
_QUOTES = '"""'
_NOT_LINTED = "# ruff: noqa: E501, RUF001, RUF002, RUF003, RUF100"


def is_name(text: str) -> bool:
    """Return whether the text is a valid name for a class, module or field."""
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def quoted(text: str) -> str:
    """Return a Python string literal; a raw one, if possible, for a text with backslashes."""
    is_raw = "\\" in text and text.isprintable() and not text.endswith("\\") and '"' not in text
    return f'r"{text}"' if is_raw else repr(text)


def literal(value: Any) -> str:
    """Return a JSON value as a Python expression."""
    match value:
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case dict():
            return mapping({key: literal(each) for key, each in value.items()})
    return repr(value)


def mapping(values: dict[str, str]) -> str:
    """Return the source of a dict with these expressions as values."""
    return f"{{{', '.join(f'{quoted(key)}: {value}' for key, value in values.items())}}}"


def tuple_of(values: Sequence[str]) -> str:
    """Return the source of a tuple of these expressions."""
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def call(name: str, *values: str, **named: str) -> str:
    """Return the source of a call with these expressions as arguments."""
    return f"{name}({', '.join((*values, *(f'{key}={value}' for key, value in named.items())))})"


def class_source(head: str, about: str, body: str) -> str:
    """Return the source of a class: its first line `head`, the docstring `about`, and `body`."""
    text = docstring(about)
    gap = "\n" if text and body else ""
    return f"{head}:\n{text}{gap}{body}" + ("" if text or body else "    pass\n")


def docstring(text: str, indent: int = _STEP) -> str:
    """Return the source of a docstring, or "" for an empty description."""
    text = "".join(each for each in text.expandtabs() if each.isprintable() or each == "\n")
    text = inspect.cleandoc(text).strip()
    if not text:
        return ""
    raw = "r" if "\\" in text and _QUOTES not in text else ""
    if not raw:
        text = text.replace("\\", "\\\\").replace(_QUOTES, '\\"\\"\\"')
    lines: list[str] = []
    for line in text.split("\n"):
        wrapped = textwrap.wrap(
            line,
            LINE_WIDTH - indent - len(_QUOTES) * 2,
            drop_whitespace=True,
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapped or [""]
    body = f"\n{' ' * indent}".join(lines)
    body = re.sub(r"[ \t]+(?=\n)", "", body)
    # A text that begins or ends with a quote, or ends with a backslash, would end the docstring in the wrong
    # place.
    body = f" {body}" if body.startswith('"') else body
    body = f"{body} " if body.endswith(('"', "\\")) else body
    return f"{' ' * indent}{raw}{_QUOTES}{body}{_QUOTES}\n"


def imported(module: str, names: Iterable[str]) -> str:
    """Return the source of an import, with names sorted for the linter."""
    listed = sorted(names, key=_import_order)
    line = f"from {module} import {', '.join(listed)}\n"
    if len(line) - 1 <= LINE_WIDTH:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in listed)})\n"


def _import_order(name: str) -> tuple[int, str]:
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name.lower())


def laid_out(text: str) -> str:
    """Return a module's source, formatted if ruff is installed, with a comment for linters if needed."""
    if find_spec("ruff") is not None:
        command = (
            sys.executable,
            "-m",
            "ruff",
            "format",
            "--no-cache",
            "--isolated",
            f"--line-length={LINE_WIDTH}",
            "-",
        )
        ran = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=True)  # noqa: S603 - a fixed program with fixed arguments
        text = ran.stdout
    if not text.isascii() or any(len(line) > LINE_WIDTH for line in text.splitlines()):
        text = f"{_NOT_LINTED}\n{text}"  # texts from the CustomResourceDefinition
    return text
