"""Archives, wheels and checksums of a release: a commit without local changes always gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from manager.util.version import VERSION
from release import ROOT

__all__ = [
    "CHECKSUMS",
    "CannotRelease",
    "bundle_archive",
    "chart_archive",
    "checksums",
    "context",
    "wheels",
]

CHECKSUMS = "SHA256SUMS"
_NAME = "operator-manager"


class CannotRelease(Exception):
    """An error that prevents a release; the message has the reason."""


def chart_archive(files: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the chart's archive with the name that `helm package` gives it."""
    return f"{_NAME}-{VERSION}.tgz", _archive(
        {f"{_NAME}/{path}": text.encode() for path, text in files.items()}
    )


def bundle_archive(files: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the archive that is the build context of the bundle's image."""
    return f"{_NAME}-bundle-{VERSION}.tar.gz", _archive({path: text.encode() for path, text in files.items()})


def context() -> tuple[str, bytes]:
    """Return the build context of the operator and pet store images, an archive for `docker build -`."""
    return f"{_NAME}-images-{VERSION}.tar.gz", _archive(_sources())


def wheels(folder: Path) -> list[str]:
    """Build the wheels of library and application from the build context's sources; return their names."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, content in _sources().items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(_mode(content))
        made = Path(scratch, "dist")
        command = (
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "wheel",
            "--quiet",
            "--no-deps",
        )
        done = subprocess.run(
            [*command, "--no-index", "--no-build-isolation", f"--wheel-dir={made}", ".", "./controllers"],
            cwd=scratch,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(_time())},
            umask=0o022,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotRelease(f"the wheels cannot be built: {done.stderr.strip()}")
        for wheel in made.iterdir():
            (folder / wheel.name).write_bytes(wheel.read_bytes())
        return sorted(wheel.name for wheel in made.iterdir())


def checksums(folder: Path, names: list[str]) -> str:
    """Return the files' checksums in the format of `sha256sum --check`."""
    return "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names)
    )


def _sources() -> dict[str, bytes]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    names = [line[1:] for line in lines if line.startswith("!")]
    listed = _git("ls-files", "-z", "--", "Dockerfile", ".dockerignore", *names).split("\0")
    return {path: (ROOT / path).read_bytes() for path in sorted(listed) if path}


def _archive(files: Mapping[str, bytes]) -> bytes:
    packed, time = io.BytesIO(), _time()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=time) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime = len(files[path]), time
            entry.mode = _mode(files[path])
            archive.addfile(entry, io.BytesIO(files[path]))
    return packed.getvalue()


def _mode(content: bytes) -> int:
    return 0o755 if content.startswith(b"#!") else 0o644


def _time() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CannotRelease("git is not on the PATH; a release is made of a commit") from None
    if done.returncode:
        raise CannotRelease(f"a release is made of a commit: {done.stderr.strip()}")
    return done.stdout
