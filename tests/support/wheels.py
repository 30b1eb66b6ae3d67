"""Dependencies of the project: their pinned versions, and wheels that are rebuilt from installed files."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement  # comes with pytest
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from tests.support import LIBRARY_PACKAGES, ROOT
from tests.support.tools import output_of

PINS = ROOT / "constraints.txt"
PROJECTS: dict[str, dict[str, Any]] = {
    project["project"]["name"]: project
    for path in ("pyproject.toml", "controllers/pyproject.toml")
    for project in [tomllib.loads((ROOT / path).read_text())]
}
"""pyproject.toml of the library and of the application, by project name."""

LIBRARY, _ = PROJECTS
METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
# Files that installers add to the contents of a wheel.
_WRITTEN = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


@functools.cache
def dependencies(*projects: str, extra: str = "") -> dict[str, Distribution]:
    """Return the installed direct and indirect dependencies of our `projects`, or of all our projects.

    The projects themselves are not in the result. `extra` adds the dependencies of an extra.
    """
    found: dict[tuple[str, str], Distribution] = {}
    waiting = [
        needed
        for name in projects or PROJECTS
        for project in [PROJECTS[name]["project"]]
        for needed in _needed(
            [*project["dependencies"], *project.get("optional-dependencies", {}).get(extra, ())], extra=""
        )
    ]
    while waiting:
        name, extra = wanted = waiting.pop()
        if wanted not in found and name not in PROJECTS:
            found[wanted] = distribution(name)
            waiting += _needed(found[wanted].requires or (), extra)
    return {name: installed for (name, _), installed in sorted(found.items())}


def tags(installed: Distribution) -> frozenset[Tag]:
    """Return the tags of the wheel from which a distribution was installed."""
    lines = (installed.read_text("WHEEL") or "").splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("Tag:")]
    return frozenset(tag for each in found for tag in parse_tag(each))


def pinned() -> list[dict[str, str]]:
    """Return the sections of constraints.txt; each maps the name of a package to the lines of the package.

    Packages that this interpreter does not install are left out.
    """
    _, *parts = re.split(r"^# Packages .*$", PINS.read_text(), flags=re.MULTILINE)
    return [
        {
            canonicalize_name(requirement.name): entry
            for entry in re.findall(r"^\S+==.*(?:\n .*)*\n", part, re.MULTILINE)
            for requirement in [Requirement(entry.partition("\\")[0])]
            if requirement.marker is None or requirement.marker.evaluate()
        }
        for part in parts
    ]


def pack_all(folder: Path) -> str:
    """Write wheels of the packages in constraints.txt; return the file's text with the hashes of the wheels.

    Packages that only the last two sections list, for development and documentation, keep their hashes.
    """
    text = PINS.read_text()
    for part in pinned()[:-2]:
        for name, entry in part.items():
            wheel = pack(distribution(name), folder)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            text = text.replace(entry, f"{entry.partition(' ')[0]} --hash=sha256:{digest}\n")
    return text


def pack(installed: Distribution, folder: Path) -> Path:
    """Write a wheel with the files of an installed distribution into `folder`, and return its path.

    The wheel has no scripts, because an installer creates scripts from the entry points.
    """
    files = list(_files(installed))
    # Deeper files may belong to vendored packages.
    (info,) = {path.removesuffix("/METADATA") for path in files if METADATA.fullmatch(path)}
    name = canonicalize_name(installed.name).replace("-", "_")
    packed = folder / f"{name}-{installed.version}-{_joined(tags(installed))}.whl"
    with zipfile.ZipFile(packed, "w") as wheel:
        for path in files:
            wheel.write(str(installed.locate_file(path)), path)
        record = f"{info}/RECORD"
        wheel.writestr(record, "".join(f"{path},,\n" for path in [*files, record]))
    return packed


def build_library(folder: Path) -> Path:
    """Build the library's wheel in `folder`, from a copy of the sources; return the path of the wheel."""
    with tempfile.TemporaryDirectory() as copy:
        others = ("apis", "controllers", "petstore")  # packages that the wheel must not contain
        for name in (*LIBRARY_PACKAGES, *others, "pyproject.toml", "LICENSE", "README.md"):
            if (ROOT / name).is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, f"{copy}/{name}", ignore=ignore)
            else:
                shutil.copy2(ROOT / name, copy)
        # Build as pip does, but without pip's check of installed packages, which takes a second.
        code = f"from setuptools import build_meta as it; it.build_wheel({str(folder)!r})"
        output_of(sys.executable, "-c", code, cwd=Path(copy))
    [built] = folder.glob(f"{LIBRARY.replace('-', '_')}-*")
    return built


def _needed(requirements: Iterable[str], extra: str) -> Iterator[tuple[str, str]]:
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for each in ("", *requirement.extras):
                yield canonicalize_name(requirement.name), each


def _files(installed: Distribution) -> Iterator[str]:
    for path in installed.files or ():
        inside = path.parts[0] != ".." and "__pycache__" not in path.parts
        if inside and not (path.parts[0].endswith(".dist-info") and path.name in _WRITTEN):
            yield path.as_posix()


def _joined(found: frozenset[Tag]) -> str:
    parts = [{getattr(tag, part) for tag in found} for part in ("interpreter", "abi", "platform")]
    return "-".join(".".join(sorted(values)) for values in parts)
