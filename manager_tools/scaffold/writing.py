"""Writing of a project's files: names in them, and changes to Python code that a user has written."""

from __future__ import annotations

import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

import jinja2

from manager.util.program import Program
from manager_tools.codegen.python_source import is_name, tuple_of

_DOMAIN = re.compile(r"(?=.{1,200}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_GROUP = re.compile(r"[a-z][a-z0-9]{0,49}")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,49}")
_PLURAL = re.compile(r"[a-z][a-z0-9]{0,61}")
_OURS = re.compile(
    r"manager_tools\.scaffold\.project\.|hello\.example\.com|example\.com|hello|greeter|[Gg]reetings?|[Vv]1beta1|\bv1\b|(?<=hello_)v1(?=_)"
)
"""All names in the template that are replaced."""

_IMPORT = r"^from (?!__future__)\S+ import (?:[^(\n]+|\([^)]*\))\n"
_IMPORTS = re.compile(f"(?:{_IMPORT})++", re.MULTILINE)
"""A block of imports on adjacent lines."""


class ScaffoldError(Exception):
    """A failure of scaffolding; the one-line message has the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The names in a scaffolded project. Raises `ScaffoldError` for an invalid name."""

    program: str
    domain: str
    group: str = "hello"
    version: str = "v1"
    kind: str = "Greeting"
    plural: str = "greetings"
    spoke: str = "v1beta1"
    """Another version of the kind, which is not the storage version."""

    def __post_init__(self) -> None:
        try:
            Program(self.program, "0")
        except ValueError as error:
            expected = str(error).partition(": ")[2]
            raise ScaffoldError(f"invalid value {self.program!r} for --name: {expected}") from None
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
        """Return the kind's name in lower case, for modules and variables."""
        return self.kind.lower()

    def in_place(self, text: str) -> str:
        """Replace the template's names in `text` by these names."""
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
    """Return the plural of a kind's name by the rules of English."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in {*"aeiou", ""}:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def _in_order(imports: re.Match[str]) -> str:
    several = re.findall(_IMPORT, imports[0], re.MULTILINE)
    return "".join(sorted(several, key=lambda each: each.split()[1]))


Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Method(NamedTuple):
    """A method of a class, with its decorators.

    Attributes: `marks` are the decorators without their module, such as `defaulting()`; `text` is the source;
    `uses` are the names that the source uses.
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
    """Yield each class `class ...(Operator[Kind])` for that kind, and the module that defines the kind."""
    known = {here: module for here, module, name in imported_names(tree) if name == kind}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Subscript) and ast.unparse(base.value).endswith("Operator"):
                    about = ast.unparse(base.slice)
                    if about in known:
                        yield node, known[about]


def methods(text: str, cls: ast.ClassDef) -> list[Method]:
    """Return the methods of a class, with their sources from `text`."""
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

    Raises `ScaffoldError` if `versions` is not written as a tuple.
    """
    [cls] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    lines = text.splitlines(keepends=True)
    lines.insert(cls.end_lineno or 0, f"\n{members}")
    if not version:
        return "".join(lines)
    for node in cls.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="versions")], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id="versions"), value=ast.expr() as value)
            ):
                if not isinstance(value, ast.Tuple):
                    raise ScaffoldError(
                        f"the versions of {name} are not a tuple; write versions = ({version},)"
                    )
                several = tuple_of([*map(ast.unparse, value.elts), version])
                return replaced("".join(lines), {value: several})
    line = f"    versions = ({version},)\n"
    documented = ast.get_docstring(cls) is not None
    first, *rest = cls.body
    if not documented:
        lines.insert(_start(first), f"{line}\n")
        return "".join(lines)
    at = first.end_lineno or 0
    blank = lines[at].strip() == ""
    following = lines[at + blank].strip()
    joined = not rest or (isinstance(rest[0], ast.Assign | ast.AnnAssign) and not following.startswith("#"))
    lines.insert(at + blank, f"{'' if blank else chr(10)}{line}{'' if joined else chr(10)}")
    return "".join(lines)


def with_import(text: str, module: str, name: str) -> str:
    """Add an import of `name` from `module`; `write` sorts the imports later."""
    lines = text.splitlines(keepends=True)
    end = 0
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        end = node.end_lineno or end
        there = lines[node.lineno - 1 : end]
        if isinstance(node, ast.ImportFrom) and node.module == module and not node.level:
            names = [ast.unparse(each) for each in node.names]
            if name in names:
                return text
            if "#" not in "".join(there):
                lines[node.lineno - 1 : end] = [_import(module, {*names, name})]
                return "".join(lines)
    line = _import(module, {name})
    if not end:
        raise ScaffoldError(f"there are no imports to add one to: {line.strip()}")
    lines.insert(end, line)
    return "".join(lines)


def replaced(text: str, by: Mapping[ast.expr, str]) -> str:
    """Return the source `text` with the expressions in `by` replaced by new texts."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # columns are counted in bytes
    for node in sorted(by, key=lambda each: each.lineno, reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + by[node].encode() + tail]
    return b"".join(lines).decode()


def _start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def _import(module: str, names: set[str]) -> str:
    return f"from {module} import {', '.join(sorted(names))}\n"


_PROJECT = Path(__file__).parent / "project"
_LATER = {"__pycache__", "answering", "v1beta1"}

_LIST = re.compile(r"^OPERATORS(?:: .+)? = \(\n(?:    .*\n)*(?=\))", re.MULTILINE)
_SHORT_LIST = re.compile(r"^(OPERATORS(?:: .+)?) = \((?:(\w+),)?\)$", re.MULTILINE)
"""A list with at most one element, in the form that formatters write."""
_LAYERS = re.compile(r'(?<=containers = \["apis"\]\nlayers = \[")[^"]*(?="\])')
_CHILD_NAMES = {
    "CronJob": (52, 0),  # the CronJob controller appends a number to the names of its Jobs
    "Deployment": (63, 0),  # a label contains the name
    "Ingress": (63, 2),  # its backend is the Service with the same name
    "Job": (63, 0),
    "Namespace": (63, 1),
    "Service": (63, 2),
    "StatefulSet": (52, 1),  # a label of its pods contains the name, to which a hash is added
}
"""By kind: the maximum length of a name, and whether dots (1) or also a leading digit (2) are forbidden."""

CHILD_KINDS = {
    **dict.fromkeys(("Namespace", "ConfigMap", "Secret", "PersistentVolumeClaim", "Service"), "core_v1"),
    **dict.fromkeys(("Deployment", "StatefulSet"), "apps_v1"),
    "Pod": "core_v1",
    **dict.fromkeys(("Job", "CronJob"), "batch_v1"),
    "Ingress": "networking_v1",
}
"""Kinds for `create api --owns`, with their modules, in the order in which operators apply them."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=False,  # noqa: S701 - the text is Python
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
)
_FEW = 3
"""The maximum number of children that a docstring lists."""
_MAIN, _PYPROJECT = Path("controllers/main.py"), Path("pyproject.toml")


@dataclass(frozen=True, slots=True)
class Written:
    """Paths of written, changed and generated files, relative to the project's root."""

    new: list[Path]
    changed: list[Path]
    generated: list[str]


def model_text(owns: Sequence[str]) -> str:
    """Return the template's model; it allows only object names that are also valid for the children."""
    model = template(Path("apis/hello/v1/greeting.py"))
    rules = {kind: _CHILD_NAMES[kind] for kind in owns if kind in _CHILD_NAMES}
    if not rules:
        return model
    size, strictness = min(each for each, _ in rules.values()), max(each for _, each in rules.values())
    rule, message = {
        0: (f"size(self.metadata.name) <= {size}", f"must be at most {size} characters"),
        1: (
            f"size(self.metadata.name) <= {size} && !self.metadata.name.contains('.')",
            f"must be at most {size} letters, digits and hyphens",
        ),
        2: (
            f"self.metadata.name.matches('^[a-z]([-a-z0-9]{{0,{size - 2}}}[a-z0-9])?$')",
            f"must be at most {size} letters, digits and hyphens, and begin with a letter",
        ),
    }[strictness]
    config = (
        f"    # Its {_listed(rules)} {'has' if len(rules) == 1 else 'have'} the same name.\n"
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


def _listed(kinds: Iterable[str]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} and {last}" if others else last


def operator_text(owns: Sequence[str]) -> str:
    """Return the source of an operator with children of these kinds."""
    owned = [kind for kind in CHILD_KINDS if kind in owns]
    pods = {"Deployment", "StatefulSet", "Pod", "Job"}.intersection(owned)
    names: dict[str, set[str]] = {}
    for kind in owned:
        names.setdefault(CHILD_KINDS[kind], set()).add(kind)
    if pods or "CronJob" in owned:
        names.setdefault("core_v1", set()).add("PodTemplateSpecDict")
    keeps = _listed(f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}" for kind in owned)
    return _TEMPLATES.get_template("owning.py.jinja").render(
        owns=owned,
        waits=bool(pods),
        imports=[(module, sorted(names[module])) for module in sorted(names)],
        keeps=f"{keeps} for each Greeting" if len(owned) <= _FEW else "the children of each Greeting",
    )


def create_api(
    root: Path, names: Names, *, cluster_scoped: bool = False, owns: Sequence[str] = ()
) -> Written:
    """Write a kind and its operator to the project at `root`.

    Raises `ScaffoldError` if there is no project, if one of the files exists, or if the template has no child
    of a kind in `owns`.
    """
    known = sorted(CHILD_KINDS)
    for kind in owns:
        if kind not in known:
            kinds = {each.lower(): each for each in known}
            near = difflib.get_close_matches(kind.lower(), kinds, n=1)
            there = f"did you mean {kinds[near[0]]}? There" if near else "there"
            raise ScaffoldError(
                f"--owns {kind or repr(kind)}: {there} is a template for {', '.join(known)}; "
                f"add any other kind to the `owns` of the operator"
            )
    if "Namespace" in owns and not cluster_scoped:
        raise ScaffoldError(
            "--owns Namespace: only cluster-scoped objects can own one; give --cluster-scoped"
        )
    domain_of(root)
    group, version, module = names.group, names.version, names.module
    sources = {
        f"apis/{group}/{version}/{module}.py": "apis/hello/v1/greeting.py",
        f"controllers/{group}/{module}.py": "controllers/hello/greeting.py",
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
    if owns:
        texts[operator] = operator_text(owns)
    new = {path: names.in_place(text) for path, text in texts.items()}
    if cluster_scoped:
        plural = f'    plural="{names.plural}",\n'
        new[model] = new[model].replace(plural, f"{plural}    namespaced=False,\n")
        # A cluster-scoped object may own objects in all namespaces.
        its = f"namespace={names.module}.metadata.namespace"
        new[operator] = new[operator].replace(its, 'namespace="default"')
    for path, text in new.items():
        if path.suffix == ".py" and len(set(bound := [*_bound(text)])) < len(bound):
            raise ScaffoldError(f"--kind {names.kind}: that is the name of something else in {path}")
    changed = {_MAIN: with_operator((root / _MAIN).read_text(), names)}
    pyproject = (root / _PYPROJECT).read_text()
    if (layered := _layered(pyproject, group)) != pyproject:
        changed[_PYPROJECT] = layered
    return write(root, new, changed)


def _bound(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    yield from (here for here, _, _ in imported_names(tree))
    yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef))


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
    """Yield the paths of the template's files that `init` copies, without those that only `create` uses."""
    for path in sorted(_PROJECT.rglob("*")):
        relative = path.relative_to(_PROJECT)
        later = _LATER.intersection(relative.parts) or relative.match("tests/test_greeting_*")
        if path.is_file() and not later and relative != Path("__init__.py"):
            yield relative


def template(path: Path) -> str:
    """Return the text of a template file."""
    return (_PROJECT / path).read_text(encoding="utf-8")


def with_operator(main: str, names: Names) -> str:
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
    return with_import(main, f"controllers.{names.group}.{names.module}", name)


def _line(name: str | None) -> str:
    return f"    {name},\n" if name else ""


def _layered(pyproject: str, group: str) -> str:
    return _LAYERS.sub(lambda found: " | ".join(sorted({*found[0].split(" | "), group})), pyproject)


def write(root: Path, new: Mapping[Path, str | bytes], changed: Mapping[Path, str]) -> Written:
    """Write the files, and run the project's generators; if that fails, undo all changes."""
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
        _lay_out(root, new, changed)
        return Written(sorted(new), sorted(changed), _generated(root))
    except OSError as error:
        _take_back(made, before)
        raise ScaffoldError(f"{error.filename}: {error.strerror}") from None
    except ScaffoldError:
        _take_back(made, before)
        raise


def _lay_out(root: Path, new: Iterable[Path], changed: Iterable[Path]) -> None:
    if find_spec("ruff") is None:
        return
    ruff = (sys.executable, "-m", "ruff")
    for command, paths in (
        ((*ruff, "check", "--no-cache", "--select=I", "--fix", "--quiet"), (*new, *changed)),
        ((*ruff, "format", "--no-cache", "--quiet"), new),
    ):
        if modules := [path for path in paths if path.suffix == ".py"]:
            subprocess.run([*command, *modules], cwd=root, capture_output=True, check=False)  # noqa: S603


def _take_back(made: Sequence[Path], before: Mapping[Path, bytes]) -> None:
    for path, content in before.items():
        path.write_bytes(content)
    for path in made:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # the file may not exist
            path.unlink()


def _generated(root: Path) -> list[str]:
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
