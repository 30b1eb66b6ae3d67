"""The command `create webhook`: methods for an existing operator, and another version of its kind."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manager_tools.scaffold.writing import (
    Method,
    Names,
    ScaffoldError,
    Written,
    declared_for,
    domain_of,
    imported_names,
    methods,
    parsed,
    replaced,
    template,
    with_import,
    with_members,
    write,
)

_OVERLAY = Path("config/default/kustomization.yaml")
_COMMENTED = re.compile(r"^# \[WEBHOOK\].*\n(?:#(?:-|  ).*\n)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answers:
    """The types of webhooks to scaffold; `conversion` is the version to convert to, "" for none."""

    defaulting: bool = False
    validation: bool = False
    conversion: str = ""

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the chosen types, which are also the names of the template's modules."""
        sorts = ("defaulting", "validation", "conversion")
        return (each for each in sorts if getattr(self, each))


@dataclass(frozen=True, slots=True)
class _Operator:
    path: Path
    text: str
    cls: ast.ClassDef
    names: Names
    """The names, with group and version of the operator's model."""


def create_webhook(root: Path, kind: str, answers: Answers, *, program: str, group: str = "") -> Written:
    """Add methods to the operator of `kind` in the project at `root`, with a test for each webhook.

    Raises `ScaffoldError` if there is no such operator or several, if the webhook or a file exists, or if a
    file has an unsupported form.
    """
    operator = _operator_of(root, kind, group, program, answers.conversion)
    names = operator.names
    new: dict[Path, str] = {}
    text = operator.text
    for sort in answers:
        added, needed = _answers(sort, operator)
        version = f"{kind}{names.spoke.capitalize()}" if sort == "conversion" else ""
        try:
            text = with_members(text, operator.cls.name, added, version)
            for module, name in needed:
                text = with_import(text, module, name)
        except ScaffoldError as error:
            raise ScaffoldError(f"{operator.path}: {error}") from None
        test = template(Path(f"tests/test_greeting_{'v1beta1' if version else sort}.py"))
        answering, its = f"controllers.answering.{sort} import GreetingOperator", _dotted(operator.path)
        test = test.replace(
            f"manager_tools.scaffold.project.{answering}", f"{its} import {operator.cls.name}"
        )
        new[Path(f"tests/test_{names.module}_{names.spoke if version else sort}.py")] = names.in_place(test)
    changed = {operator.path: text, **_overlay(root)}
    if answers.conversion:
        new |= _second_version(root, names)
    return write(root, new, changed)


def _operator_of(root: Path, kind: str, group: str, program: str, spoke: str) -> _Operator:
    domain = domain_of(root)
    Names(program=program, domain=domain, kind=kind)  # an invalid kind is refused here
    found: list[_Operator] = []
    for path in sorted((root / "controllers").rglob("*.py")):
        text, tree = parsed(path)
        for cls, module in declared_for(tree, kind):
            match module.split("."):
                case ["apis", its, version, name] if name == kind.lower():
                    if group in {"", its}:
                        names = Names(program=program, domain=domain, group=its, version=version, kind=kind)
                        found.append(_Operator(path.relative_to(root), text, cls, names))
                case _:
                    expected = f"apis/GROUP/VERSION/{kind.lower()}.py"
                    raise ScaffoldError(f"{path}: {kind} is expected from {expected}, and not from {module}")
    if not found:
        where = f"controllers/ has no operator of {kind}{f' of group {group}' if group else ''}"
        raise ScaffoldError(f"{where}: `class {kind}Operator(Operator[{kind}])`, which create api writes")
    if len(found) > 1:
        groups = sorted({each.names.group for each in found})
        which = f"--group is needed: {' or '.join(groups)}" if len(groups) > 1 else "write them by hand"
        raise ScaffoldError(f"{' and '.join(str(each.path) for each in found)} are about {kind}; {which}")
    [operator] = found
    if not spoke:
        return operator
    if spoke == operator.names.version:
        raise ScaffoldError(f"{kind} has the version {spoke}, and its operator works on it; name another one")
    return dataclasses.replace(operator, names=dataclasses.replace(operator.names, spoke=spoke))


def _answers(sort: str, operator: _Operator) -> tuple[str, list[tuple[str, str]]]:
    text = operator.names.in_place(template(Path(f"controllers/answering/{sort}.py")))
    tree = ast.parse(text)
    [cls] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    more = methods(text, cls)
    for there in methods(operator.text, operator.cls):
        for each in more:
            if there.name == each.name or there.marks.intersection(each.marks):
                raise ScaffoldError(
                    f"{operator.path}: {operator.cls.name}.{there.name} exists already, and is not changed"
                )
    return "\n".join(each.text for each in more), list(_needed(tree, more))


def _needed(tree: ast.Module, added: list[Method]) -> Iterator[tuple[str, str]]:
    used = frozenset[str]().union(*(each.uses for each in added))
    for here, module, name in imported_names(tree):
        if here in used:
            yield module, name if here == name else f"{name} as {here}"


def _second_version(root: Path, names: Names) -> dict[Path, str]:
    group = Path("apis", names.group)
    path = group / names.version / f"{names.module}.py"
    text, tree = parsed(root / path)
    by_hand = f"{path}: copy it to {group / names.spoke} by hand, with that version and `@crd(storage=False)`"
    cls = next(
        (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == names.kind), None
    )
    if cls is None:
        raise ScaffoldError(by_hand)
    version = [each.value for each in cls.keywords if each.arg == "version"]
    marks = [each for each in cls.decorator_list if ast.unparse(each).partition("(")[0].endswith("crd")]
    match version, marks:
        case [ast.Constant() as value], [mark] if "storage" not in ast.unparse(mark):
            text = replaced(text, {value: f'"{names.spoke}"', mark: _unstored(text, mark)})
        case _:
            raise ScaffoldError(by_hand)
    package = group / names.spoke / "__init__.py"
    files = {group / names.spoke / f"{names.module}.py": text}
    if not (root / package).exists():
        files[package] = names.in_place(template(Path("apis/hello/v1beta1/__init__.py")))
    return files


def _unstored(text: str, mark: ast.expr) -> str:
    written = ast.get_source_segment(text, mark) or ""
    head = written.removesuffix(")").rstrip()
    if head.endswith("(") or not written.endswith(")"):
        return f"{head.removesuffix('(')}(storage=False)"
    if "\n" in written:
        return f"{head.removesuffix(',')},\n    storage=False,\n)"
    return f"{head.removesuffix(',')}, storage=False)"


def _overlay(root: Path) -> dict[Path, str]:
    if not (root / _OVERLAY).exists():
        return {}
    text = (root / _OVERLAY).read_text(encoding="utf-8")
    if re.search(r"^- \.\./webhook\b", text, re.MULTILINE):
        return {}
    more, found = _COMMENTED.subn(_uncommented, text)
    if not found:
        raise ScaffoldError(
            f"{_OVERLAY} has no [WEBHOOK]: put `- ../webhook` to its resources and "
            "manager_webhook_patch.yaml to its patches first"
        )
    return {_OVERLAY: more}


def _uncommented(found: re.Match[str]) -> str:
    _, _, rest = found[0].partition("\n")
    return re.sub(r"^#", "", rest, flags=re.MULTILINE)


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)
