"""Writing and changing of a project's files."""

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

from manager_tools.scaffold.names import Names, ScaffoldError
from manager_tools.scaffold.source import imported_names, with_import

_PROJECT = Path(__file__).parent / "project"
_OTHER_NAMES = {
    "dockerignore": ".dockerignore",
    "gitignore": ".gitignore",
    "pyproject.in.toml": "pyproject.toml",
}
"""Of files that would mean something to tools where the template lies."""
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


def init(root: Path, names: Names) -> Written:
    """Write a project with one kind to the folder `root`, which need not be there.

    Raises `ScaffoldError` when one of its files is there already.
    """
    files = {
        path.with_name(_OTHER_NAMES.get(path.name, path.name)): names.in_place(template(path))
        for path in _template_files()
    }
    return write(root, files, {})


def _with_name_rule(model: str, owns: str) -> str:
    """Limit the names of the kind's objects to those that a child of the same name can have."""
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
    texts[model] = _with_name_rule(texts[model], owns or "")
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


def _template_files() -> Iterator[Path]:
    """All but what makes the template a package, and what only `create` takes."""
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


def write(root: Path, new: Mapping[Path, str], changed: Mapping[Path, str]) -> Written:
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
            (root / path).write_text(text, encoding="utf-8")
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
