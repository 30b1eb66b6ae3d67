"""Python as the formatter lays it out: annotations, literals and docstrings of generated models."""

from __future__ import annotations

import inspect
import keyword
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

LINE_WIDTH = 110
_STEP = 4
_QUOTES = '"""'


def is_name(text: str) -> bool:
    """Return whether a class, a module or a field can be called so."""
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


@dataclass(frozen=True, slots=True)
class Group:
    """Something in brackets: `Field(...)`, `list[...]`, `[...]`. `opening` has the bracket."""

    opening: str
    items: tuple[Expression, ...]

    def __str__(self) -> str:
        one = "," if self.opening == "(" and len(self.items) == 1 else ""
        return f"{self.opening}{', '.join(map(str, self.items))}{one}{self.closing}"

    @property
    def closing(self) -> str:
        """Return the closing bracket."""
        return {"(": ")", "[": "]", "{": "}"}[self.opening[-1]]

    @property
    def trailing_comma(self) -> str:
        """In a subscript of one thing it would mean something else."""
        return "" if re.search(r"\w\[$", self.opening) and len(self.items) == 1 else ","


@dataclass(frozen=True, slots=True)
class Keyword:
    """A value with what stands before it: `min_length=1`, `"key": "value"`."""

    prefix: str
    value: Expression

    def __str__(self) -> str:
        return f"{self.prefix}{self.value}"


@dataclass(frozen=True, slots=True)
class Union:
    """A type, or None."""

    member: Expression

    def __str__(self) -> str:
        return f"{self.member} | None"


@dataclass(frozen=True, slots=True)
class Text:
    """A string, which is broken into several where it is too long for a line."""

    value: str

    def __str__(self) -> str:
        raw = "\\" in self.value and self.value.isprintable() and not self.value.endswith("\\")
        quote = "'" if self.value.count('"') > self.value.count("'") else '"'
        if raw and quote not in self.value:
            return f"r{quote}{self.value}{quote}"
        escaped = "".join(
            f"\\{each}"
            if each in {quote, "\\"}
            else each
            if each.isprintable()
            else each.encode("unicode_escape").decode()
            for each in self.value
        )
        return f"{quote}{escaped}{quote}"

    def pieces(self, width: int) -> list[Text]:
        """Strings that are this one together, broken after spaces where there are any."""
        pieces, rest = [], self.value
        while len(str(Text(rest))) > width:
            size = width
            while len(str(Text(rest[:size]))) > width:
                size -= 1
            size = rest.rfind(" ", 1, size) + 1 or size
            pieces.append(Text(rest[:size]))
            rest = rest[size:]
        return [*pieces, Text(rest)]


Expression: TypeAlias = "str | Group | Keyword | Union | Text"


def literal(value: Any) -> Expression:
    """Return a JSON value as an expression."""
    match value:
        case str():
            return Text(value)
        case list():
            return Group("[", tuple(map(literal, value)))
        case dict():
            return Group("{", tuple(Keyword(f"{Text(key)}: ", literal(each)) for key, each in value.items()))
    return repr(value)


def field_source(name: str, annotation: Expression, default: Expression | None) -> str:
    """Return the source line, or lines, of a model's field."""
    head = f"{' ' * _STEP}{name}: "
    flat = f"{head}{annotation}" + ("" if default is None else f" = {default}")
    if len(flat) <= LINE_WIDTH:
        return f"{flat}\n"
    ending = "" if default is None else " = "
    rest = len(ending) + (0 if default is None else len(str(default)))
    if isinstance(annotation, Union) and len(f"{head}{annotation} = (") <= LINE_WIDTH:
        return f"{head}{annotation} = (\n{' ' * _STEP * 2}{default}\n{' ' * _STEP})\n"
    inner = " " * _STEP * 2
    if isinstance(annotation, Union):
        fits = len(inner) + len(str(annotation)) <= LINE_WIDTH
        lines = (
            str(annotation) if fits else f"{laid(annotation.member, len(inner), len(inner))}\n{inner}| None"
        )
        text = f"(\n{inner}{lines}\n{' ' * _STEP})"
    elif isinstance(annotation, str) and default is None and len(inner + annotation) <= LINE_WIDTH:
        text = f"(\n{inner}{annotation}\n{' ' * _STEP})"
    else:
        text = laid(annotation, _STEP, len(head), rest)
    if default is not None:
        last = f"{head}{text}{ending}".rpartition("\n")[2]
        text += ending + laid(default, _STEP, len(last))
    return f"{head}{text}\n"


def laid(expression: Expression, indent: int = 0, taken: int = 0, after: int = 0) -> str:
    """`expression` from the column `taken` on, in a line that begins at `indent`; `after` is to follow."""
    if taken + len(str(expression)) + after <= LINE_WIDTH:
        return str(expression)
    match expression:
        case Keyword():
            value = laid(expression.value, indent, taken + len(expression.prefix), after)
            return f"{expression.prefix}{value}"
        case Union():
            return f"{laid(expression.member, indent, taken, 0)}\n{' ' * indent}| None"
        case Text():
            # The first piece may stand behind something.
            pieces = expression.pieces(LINE_WIDTH - after - max(taken, indent))
            return f"\n{' ' * indent}".join(map(str, pieces))
        case Group():
            inner = indent + _STEP
            items = (f"{' ' * inner}{laid(each, inner, inner, 1)}" for each in expression.items)
            lines = f"{expression.trailing_comma}\n".join((*items, ""))
            if not expression.trailing_comma:
                lines = lines.rstrip("\n") + "\n"
            return f"{expression.opening}\n{lines}{' ' * indent}{expression.closing}"
    return expression


def class_source(head: str, about: str, body: str) -> str:
    """Return the source of a class; `head` is its first line without the colon."""
    text = docstring(about)
    gap = "\n" if text and body else ""
    return f"{head}:\n{text}{gap}{body}" + ("" if text or body else "    pass\n")


def docstring(text: str, indent: int = _STEP) -> str:
    """Return the description as a docstring; "" without a text."""
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
    # What begins with a quote, or ends with one or with a backslash, would end elsewhere.
    body = f" {body}" if body.startswith('"') else body
    body = f"{body} " if body.endswith(('"', "\\")) else body
    return f"{' ' * indent}{raw}{_QUOTES}{body}{_QUOTES}\n"


def imported(module: str, names: Iterable[str]) -> str:
    """Return an import of the names, sorted for the linter."""
    listed = sorted(names, key=_import_order)
    line = f"from {module} import {', '.join(listed)}\n"
    if len(line) - 1 <= LINE_WIDTH:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in listed)})\n"


def _import_order(name: str) -> tuple[int, str]:
    """Return the key that sorts constants before classes, and these before functions, as the linter does."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name.lower())
