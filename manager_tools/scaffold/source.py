"""Python that a person has written, with more in it: found by its syntax, changed where that is."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from manager_tools.scaffold.names import ScaffoldError

_WIDTH = 110

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Method(NamedTuple):
    """Method of a class, with its decorators.

    Attributes: `marks` are the last parts of its decorators with their arguments; `text` is its source;
    `uses` are the names in it.
    """

    name: str
    marks: frozenset[str]
    text: str
    uses: frozenset[str]


def parsed(path: Path) -> tuple[str, ast.Module]:
    """Return the text and the syntax tree of a file; raise `ScaffoldError` when it cannot be parsed."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, ast.parse(text)
    except OSError as error:
        raise ScaffoldError(f"{path}: {error.strerror}") from None
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise ScaffoldError(f"{path} cannot be read: {error}") from None


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield each name that the module imports: its local name, the module, and its name there."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((each.asname or each.name, node.module, each.name) for each in node.names)


def declared_for(tree: ast.Module, kind: str) -> Iterator[tuple[ast.ClassDef, str]]:
    """Yield the operators of that kind, `class ...(Operator[Kind])`, with the kind's module."""
    known = {here: module for here, module, name in imported_names(tree) if name == kind}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Subscript) and ast.unparse(base.value).endswith("Operator"):
                    about = ast.unparse(base.slice)
                    if about in known:
                        yield node, known[about]


def methods(text: str, cls: ast.ClassDef) -> list[Method]:
    """Return the methods of a class."""
    lines = text.splitlines(keepends=True)
    return [
        Method(
            node.name,
            frozenset(ast.unparse(each).rpartition("webhook.")[2] for each in node.decorator_list),
            "".join(lines[_start(node) : node.end_lineno]),
            frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name)),
        )
        for node in cls.body
        if isinstance(node, Definition)
    ]


def with_members(text: str, name: str, members: str, version: str = "") -> str:
    """Append `members`, already indented, to the class, and add `version` to its `versions`.

    Raises `ScaffoldError` for versions that are not written as a tuple.
    """
    [cls] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    lines = text.splitlines(keepends=True)
    lines.insert(cls.end_lineno or 0, f"\n{members}")
    if not version:
        return "".join(lines)
    for node in cls.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="versions")], value=value):
                if not isinstance(value, ast.Tuple):
                    raise ScaffoldError(
                        f"the versions of {name} are not a tuple; write versions = ({version},)"
                    )
                several = ", ".join([*map(ast.unparse, value.elts), version])
                line = f"    versions = ({several}{'' if value.elts else ','})\n"
                lines[node.lineno - 1 : node.end_lineno] = [line]
                return "".join(lines)
    line = f"    versions = ({version},)\n"
    documented = ast.get_docstring(cls) is not None
    first, *rest = cls.body
    if not documented:
        lines.insert(_start(first), f"{line}\n")
        return "".join(lines)
    at = first.end_lineno or 0
    blank = lines[at].strip() == ""
    following = lines[at + blank].strip()
    joined = not rest or (isinstance(rest[0], ast.Assign) and not following.startswith("#"))
    lines.insert(at + blank, f"{'' if blank else chr(10)}{line}{'' if joined else chr(10)}")
    return "".join(lines)


def with_import(text: str, module: str, name: str, *, ours: frozenset[str]) -> str:
    """Take `name` from `module` too, where the linter wants it, which has the packages `ours` last."""
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = text.splitlines(keepends=True)
    for node in imports:
        there = lines[node.lineno - 1 : node.end_lineno]
        if isinstance(node, ast.ImportFrom) and node.module == module and not node.level:
            names = {ast.unparse(each) for each in node.names}
            if name in names:
                return text
            if "#" not in "".join(there):
                lines[node.lineno - 1 : node.end_lineno] = [_import(module, {*names, name})]
                return "".join(lines)

    new = (_section(module, ours), True, module)
    order = [_order(node, ours) for node in imports]
    before = sum(each <= new for each in order)
    line = _import(module, {name})
    if before and (order[before - 1][0] == new[0] or before == len(order) or order[before][0] != new[0]):
        apart = "" if order[before - 1][0] == new[0] else "\n"
        lines.insert(imports[before - 1].end_lineno or 0, f"{apart}{line}")
    elif imports:
        apart = "" if order[before][0] == new[0] else "\n"
        lines.insert(imports[before].lineno - 1, f"{line}{apart}")
    else:
        raise ScaffoldError(f"there are no imports to add one to: {line.strip()}")
    return "".join(lines)


def replaced(text: str, by: Mapping[ast.expr, str]) -> str:
    """Put texts in place of what is there."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # columns are counted in bytes
    for node in sorted(by, key=lambda each: each.lineno, reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + by[node].encode() + tail]
    return b"".join(lines).decode()


def _start(node: ast.stmt) -> int:
    """Return the index of the statement's first line, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def _order(node: ast.Import | ast.ImportFrom, ours: frozenset[str]) -> tuple[int, bool, str]:
    is_from = isinstance(node, ast.ImportFrom)
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
    return _section(module, ours), is_from, module


def _section(module: str, ours: frozenset[str]) -> int:
    top = module.partition(".")[0]
    if top == "__future__":
        return 0
    return 1 if top in sys.stdlib_module_names else 3 if top in ours else 2


def _import(module: str, names: set[str]) -> str:
    several = sorted(names, key=_rank)
    line = f"from {module} import {', '.join(several)}\n"
    if len(line) <= _WIDTH + 1:
        return line
    return f"from {module} import (\n{''.join(f'    {each},{chr(10)}' for each in several)})\n"


def _rank(name: str) -> tuple[int, str, str]:
    """Constants, then classes, then the rest."""
    sort = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return sort, name.lower(), name
