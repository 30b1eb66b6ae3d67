"""The files of a project: the names in them, changes to Python that a person has written, and writing."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from manager.util.program import Program
from manager_tools.codegen.python_source import is_name

_DOMAIN = re.compile(r"(?=.{1,200}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_GROUP = re.compile(r"[a-z][a-z0-9]{0,49}")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,49}")
_PLURAL = re.compile(r"[a-z][a-z0-9]{0,61}")

_OURS = re.compile(
    r"manager_tools\.scaffold\.project\.|hello\.example\.com|example\.com|hello|greeter|[Gg]reetings?|[Vv]1beta1|\bv1\b|(?<=hello_)v1(?=_)"
)
"""Every name of the template that stands for another one."""

_IMPORTS = re.compile(r"(?:^from (?!__future__)\S+ import [^(\n]+\n)+", re.MULTILINE)
"""Imports in lines one below the other."""


class ScaffoldError(Exception):
    """Scaffolding failure; the one-line message gives the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Names in a scaffolded project. Raises `ScaffoldError` for an invalid name."""

    program: str
    domain: str
    group: str = "hello"
    version: str = "v1"
    kind: str = "Greeting"
    plural: str = "greetings"
    spoke: str = "v1beta1"
    """Another version of the kind."""

    def __post_init__(self) -> None:
        try:
            Program(self.program, "0")
        except ValueError as error:
            raise ScaffoldError(str(error)) from None
        for what, value, pattern, expected in (
            ("--domain", self.domain, _DOMAIN, "a name such as example.com"),
            ("--group", self.group, _GROUP, "a lower-case word such as hello, without the domain,"),
            ("--version", self.version, _VERSION, "v1, v2beta1 or the like"),
            ("--conversion", self.spoke, _VERSION, "v1, v2beta1 or the like"),
            ("--kind", self.kind, _KIND, "a word of letters and digits that begins in upper case"),
            ("--plural", self.plural, _PLURAL, "a lower-case word"),
        ):
            if not pattern.fullmatch(value):
                raise ScaffoldError(f"invalid value {value!r} for {what}: {expected} is expected")
        for what, value in (("--group", self.group), ("--kind", self.module), ("--kind", self.kind)):
            if not is_name(value):
                raise ScaffoldError(f"invalid value for {what}: {value!r} is a Python keyword")
        if self.module == "self":
            raise ScaffoldError(f"invalid value for --kind: {self.kind!r} is `self` in methods")

    @property
    def module(self) -> str:
        """Return the kind's name in the form for modules and variables."""
        return self.kind.lower()

    def in_place(self, text: str) -> str:
        """Give `text` of the template these names."""
        names = {
            "manager_tools.scaffold.project.": "",
            "hello.example.com": f"{self.group}.{self.domain}",
            "example.com": self.domain,
            "hello": self.group,
            "greeter": self.program,
            "Greeting": self.kind,
            "greeting": self.module,
            "greetings": self.plural,
            "v1beta1": self.spoke,
            "V1beta1": self.spoke.capitalize(),
            "v1": self.version,
        }
        return _IMPORTS.sub(_in_order, _OURS.sub(lambda found: names[found[0]], text))


def plural_of(kind: str) -> str:
    """Return the plural of a word by English rules."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in {*"aeiou", ""}:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _in_order(imports: re.Match[str]) -> str:
    """Sort a block of `from MODULE import ...` lines for the linter."""
    return "".join(sorted(imports[0].splitlines(keepends=True), key=lambda line: line.split()[1]))


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


_PROJECT = Path(__file__).parent / "project"
_LATER = {"__pycache__", "answering", "owning", "v1beta1"}

_LIST = re.compile(r"^OPERATORS(?:: .+)? = \(\n(?:    .*\n)*(?=\))", re.MULTILINE)
_SHORT_LIST = re.compile(r"^(OPERATORS(?:: .+)?) = \((?:(\w+),)?\)$", re.MULTILINE)
"""As formatters write a list of one."""
_LAYERS = re.compile(r'(?<=containers = \["apis"\]\nlayers = \[")[^"]*(?="\])')
_SERVICE_NAME = (
    "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
    "must be at most 63 letters, digits and hyphens, and begin with a letter",
)
_CHILD_NAMES = {
    "Deployment": ("size(self.metadata.name) <= 63", "must be at most 63 characters"),  # a label has it
    "Ingress": _SERVICE_NAME,  # its backend is the Service of that name
    "Namespace": (
        "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
        "must be at most 63 letters, digits and hyphens",
    ),
    "Service": _SERVICE_NAME,
}
"""By the kind of the children, the rule for the names of their owners, and its message."""

_OWNS = re.compile(r"^    owns = \((\w+),\)$", re.MULTILINE)
_MAIN, _PYPROJECT = Path("controllers/main.py"), Path("pyproject.toml")


@dataclass(frozen=True, slots=True)
class Written:
    """The paths of what was written, changed and generated, as a person at the project's root sees them."""

    new: list[Path]
    changed: list[Path]
    generated: list[str]


def model_text(owns: str | None) -> str:
    """Return the template's model, whose objects have only names that a child of the kind `owns` can have."""
    model = template(Path("apis/hello/v1/greeting.py"))
    if owns not in _CHILD_NAMES:
        return model
    rule, message = _CHILD_NAMES[owns]
    config = (
        f"    # Its {owns} has the same name.\n"
        "    model_config = ConfigDict(\n"
        "        json_schema_extra=cel(\n"
        f'            "{rule}",\n'
        f'            "{message}",\n'
        '            field_path=".metadata.name",\n'
        "        )\n"
        "    )\n\n"
    )
    for old, new in (
        ("from pydantic import Field", "from pydantic import ConfigDict, Field"),
        ("Status, crd\n", "Status, cel, crd\n"),
        ("    spec: Greeting", f"{config}    spec: Greeting"),
    ):
        assert model.count(old) == 1
        model = model.replace(old, new)
    return model


def create_api(root: Path, names: Names, *, cluster_scoped: bool = False, owns: str | None = None) -> Written:
    """Write a kind and its operator to the project at `root`.

    Raises `ScaffoldError` when there is no project, when one of the files exists already, and when no
    template owns the requested kind.
    """
    known = beginnings()
    if owns is not None and owns not in known:
        raise ScaffoldError(
            f"--owns {owns}: there is a beginning for {', '.join(known)}; name any other kind in the "
            f"`owns` of the operator"
        )
    if owns == "Namespace" and not cluster_scoped:
        raise ScaffoldError(
            "--owns Namespace: only cluster-scoped objects can own one; give --cluster-scoped"
        )
    domain_of(root)
    group, version, module = names.group, names.version, names.module
    operator = Path("hello/greeting.py") if owns is None else known[owns]
    sources = {
        f"apis/{group}/{version}/{module}.py": "apis/hello/v1/greeting.py",
        f"controllers/{group}/{module}.py": f"controllers/{operator}",
        f"config/samples/{group}_{version}_{module}.yaml": "config/samples/hello_v1_greeting.yaml",
        f"tests/test_{module}.py": "tests/test_greeting.py",
    }
    packages = {
        f"apis/{group}/__init__.py": "apis/hello/__init__.py",
        f"apis/{group}/{version}/__init__.py": "apis/hello/v1/__init__.py",
        f"controllers/{group}/__init__.py": "controllers/hello/__init__.py",
    }
    sources |= {name: source for name, source in packages.items() if not (root / name).exists()}
    model, operator = Path(f"apis/{group}/{version}/{module}.py"), Path(f"controllers/{group}/{module}.py")
    texts = {Path(name): template(Path(source)) for name, source in sources.items()}
    texts[model] = model_text(owns)
    new = {path: names.in_place(text) for path, text in texts.items()}
    if cluster_scoped:
        plural = f'    plural="{names.plural}",\n'
        new[model] = new[model].replace(plural, f"{plural}    namespaced=False,\n")
        # A cluster-scoped object may own objects in any namespace.
        its = f"namespace={names.module}.metadata.namespace"
        new[operator] = new[operator].replace(its, 'namespace="default"')
    for path, text in new.items():
        if path.suffix == ".py" and len(set(bound := [*_bound(text)])) < len(bound):
            raise ScaffoldError(f"--kind {names.kind}: that is the name of something else in {path}")
    changed = {_MAIN: with_operator((root / _MAIN).read_text(), names, ours(root))}
    pyproject = (root / _PYPROJECT).read_text()
    if (layered := _layered(pyproject, group)) != pyproject:
        changed[_PYPROJECT] = layered
    return write(root, new, changed)


def _bound(text: str) -> Iterator[str]:
    """Yield the names of a module's imports and classes."""
    tree = ast.parse(text)
    yield from (here for here, _, _ in imported_names(tree))
    yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def beginnings() -> dict[str, Path]:
    """Return the template operators by the kind that they own."""
    folder = Path("controllers", "owning")
    paths = (
        (folder / path.name, _OWNS.search(path.read_text())) for path in (_PROJECT / folder).glob("*.py")
    )
    return dict(sorted((found[1], path.relative_to("controllers")) for path, found in paths if found))


def domain_of(root: Path) -> str:
    """Return the domain of the project's API groups; raise `ScaffoldError` when there is no project."""
    try:
        settings = tomllib.loads((root / _PYPROJECT).read_text())
        domain = settings["tool"]["operator-manager"]["domain"]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        domain = None
    if not isinstance(domain, str) or not (root / _MAIN).is_file():
        raise ScaffoldError(
            f"this folder is not a project: {_MAIN} is expected, and {_PYPROJECT} with a domain in "
            f"[tool.operator-manager]"
        )
    return domain


def template_files() -> Iterator[Path]:
    """Yield the files of a new project: neither the template's own package, nor what only `create` takes."""
    for path in sorted(_PROJECT.rglob("*")):
        relative = path.relative_to(_PROJECT)
        later = _LATER.intersection(relative.parts) or relative.match("tests/test_greeting_*")
        if path.is_file() and not later and relative != Path("__init__.py"):
            yield relative


def template(path: Path) -> str:
    """Return the text of a template file."""
    return (_PROJECT / path).read_text(encoding="utf-8")


def with_operator(main: str, names: Names, ours: frozenset[str]) -> str:
    """Add the operator to the list in the module `main`; raise `ScaffoldError` if that is impossible."""
    main = _SHORT_LIST.sub(lambda found: f"{found[1]} = (\n{_line(found[2])})", main)
    operators = _LIST.search(main)
    if operators is None:
        raise ScaffoldError(f"{_MAIN} has no list to add to: `OPERATORS = (`, and one of them in each line")
    name = f"{names.kind}Operator"
    if re.search(rf"\b{name}\b", main):
        raise ScaffoldError(
            f"{_MAIN} has an operator {name} already; another version is for "
            f"create webhook --kind {names.kind} --conversion VERSION"
        )
    main = f"{main[: operators.end()]}{_line(name)}{main[operators.end() :]}"
    return with_import(main, f"controllers.{names.group}.{names.module}", name, ours=ours)


def ours(root: Path) -> frozenset[str]:
    """Return the packages that import sorting counts as the project's own."""
    own = (path.parent.name for path in root.glob("*/__init__.py"))
    return frozenset({"manager", "manager_kinds", "manager_tools", *own})


def _line(name: str | None) -> str:
    return f"    {name},\n" if name else ""


def _layered(pyproject: str, group: str) -> str:
    """Where import-linter is told every group, tell it this one."""
    return _LAYERS.sub(lambda found: " | ".join(sorted({*found[0].split(" | "), group})), pyproject)


def write(root: Path, new: Mapping[Path, str | bytes], changed: Mapping[Path, str]) -> Written:
    """Write the files, and have the project generate what follows from them; if it cannot, none is left."""
    for path in new:
        if (root / path).exists():
            raise ScaffoldError(f"{root / path} exists already, and is not overwritten")
    before = {root / path: (root / path).read_bytes() for path in changed}
    made: list[Path] = []
    try:
        for path, text in {**new, **changed}.items():
            folders = [each for each in (root / path).parents if not each.exists()]
            made += [*reversed(folders), *([] if path in changed else [root / path])]
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode() if isinstance(text, str) else text)
        return Written(sorted(new), sorted(changed), _generated(root))
    except OSError as error:
        _take_back(made, before)
        raise ScaffoldError(f"{error.filename}: {error.strerror}") from None
    except ScaffoldError:
        _take_back(made, before)
        raise


def _take_back(made: Sequence[Path], before: Mapping[Path, bytes]) -> None:
    """Restore the files `before`, and remove those `made`."""
    for path, content in before.items():
        path.write_bytes(content)
    for path in made:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # that may not have come into being
            path.unlink()


def _generated(root: Path) -> list[str]:
    """Have the program itself say what it comes to: in a process of its own, as its modules are new."""
    before = os.environ.get("PYTHONPATH")
    ran = subprocess.run(
        [sys.executable, "-m", "controllers.main", "generate"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root.resolve()}{os.pathsep + before if before else ''}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        reason = (ran.stderr.strip() or "it says nothing").splitlines()[-1]
        raise ScaffoldError(f"nothing is written, as `python -m controllers.main generate` fails: {reason}")
    return [line.removeprefix("generated ") for line in ran.stdout.splitlines()]
