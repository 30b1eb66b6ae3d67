"""The command `init`: the files of a new project, with a wheel of the library and its hash."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from manager_tools.scaffold.writing import Names, ScaffoldError, Written, template, template_files, write

_REQUIREMENTS: Final = Path("requirements.txt")
_DISTRIBUTION = "operator-manager"
_ROOT = Path(__file__).resolve().parents[2]
# The line has no name before the path: pip 23 (in Python 3.11) supports relative paths only in this form.
_LINE = re.compile(r"^file:wheels/operator_manager-.*$", re.MULTILINE)
_TAKEN = frozenset(
    {"devcluster", "mypy", "operator-manager", "pip", "pytest", "python", "ruff", "setuptools", "uv"}
)
"""Names of other programs in a project's environment, which the new program would replace.

The packages in the requirements of a new project are taken too.
"""
_PINNED = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)
_OF_INSTALLERS = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})
_OLDEST_DATE = (1980, 1, 1, 0, 0, 0)


_OTHER_NAMES = {
    "dockerignore": ".dockerignore",
    "github": ".github",
    "gitignore": ".gitignore",
    "pyproject.in.toml": "pyproject.toml",
}
"""By name in the template: the name in a project, which would affect tools in this repository."""


def init(root: Path, names: Names) -> Written:
    """Write a project with one kind to the folder `root`, which may be missing.

    Raises `ScaffoldError` if one of the files exists, if the program's name is taken, and for the reasons
    of `packed_library`.
    """
    pinned = (_PINNED.findall(template(each)) for each in template_files() if each.match("requirements*.txt"))
    if names.program in _TAKEN.union(*pinned):
        taken = "a project's environment has a package or command of that name"
        raise ScaffoldError(f"invalid value {names.program!r} for --name: {taken}")
    wheel, content = packed_library()
    files: dict[Path, str | bytes] = {
        Path(*(_OTHER_NAMES.get(part, part) for part in path.parts)): names.in_place(template(path))
        for path in template_files()
    }
    files[_REQUIREMENTS] = _with_library(template(_REQUIREMENTS), wheel, content)
    return write(root, {**files, wheel: content}, {})


def packed_library() -> tuple[Path, bytes]:
    """Return the path (in a project) and the content of a wheel of the running library.

    The library may be installed or run from a checkout. Equal files give equal bytes. Raises `ScaffoldError`
    if the library's metadata is missing.
    """
    try:
        installed = distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        raise ScaffoldError(
            f"{_DISTRIBUTION} is not installed here: `make venv` in its checkout does it"
        ) from None
    name = f"{_DISTRIBUTION.replace('-', '_')}-{installed.version}"
    files = _package_files(installed) | _metadata_files(installed)
    record = f"{name}.dist-info/RECORD"
    files[record] = "".join([*(_entry(*each) for each in files.items()), f"{record},,\n"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, _OLDEST_DATE)
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, content)
    return Path("wheels", f"{name}-py3-none-any.whl"), packed.getvalue()


def _with_library(requirements: str, wheel: Path, content: bytes) -> str:
    """Return the requirements with the name and hash of this wheel in the library's line.

    Raises `ScaffoldError` unless there is exactly one such line.
    """
    line = f"file:{wheel.as_posix()}#sha256={hashlib.sha256(content).hexdigest()}"
    changed, found = _LINE.subn(line, requirements)
    if found != 1:
        raise ScaffoldError(f"{_REQUIREMENTS} has {found} lines for {_DISTRIBUTION}; one is expected")
    return changed


def renew_library(root: Path) -> Path:
    """Replace the project's wheel of the library by a wheel of the running version; return its path.

    Raises `ScaffoldError` for the reasons of `packed_library`, and if a file cannot be read or written.
    """
    wheel, content = packed_library()
    try:
        requirements = _with_library((root / _REQUIREMENTS).read_text(encoding="utf-8"), wheel, content)
        (root / wheel).parent.mkdir(exist_ok=True)
        for old in (root / wheel).parent.glob(f"{wheel.name.partition('-')[0]}-*.whl"):
            old.unlink()
        (root / wheel).write_bytes(content)
        (root / _REQUIREMENTS).write_text(requirements, encoding="utf-8")
    except OSError as error:
        raise ScaffoldError(f"{error.filename}: {error.strerror}") from None
    return wheel


def _package_files(installed: Distribution) -> dict[str, bytes]:
    tops = (installed.read_text("top_level.txt") or "").split()
    paths = (path for top in sorted(tops) for path in sorted((_ROOT / top).rglob("*")))
    return {
        path.relative_to(_ROOT).as_posix(): path.read_bytes()
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    }


def _metadata_files(installed: Distribution) -> dict[str, bytes]:
    return {
        path.as_posix(): path.read_binary()
        for path in sorted(installed.files or ())
        if path.parts[0].endswith(".dist-info") and path.name not in _OF_INSTALLERS and "uv_" not in path.name
    }


def _entry(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"
