"""A program to compare (peer), and its build in `.local/peers/`, a folder that git ignores."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.program import Program

BUILDS = Path(__file__).parents[2] / ".local" / "peers"
BUILD_TIMEOUT = 1200.0
STAMP = "sources.sha256"


class LeftOutError(Exception):
    """Error for a program that cannot be measured here, with the reason: "cargo is not on the PATH"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A program to compare that has been built."""

    program: Program
    version: str
    """The versions of library and language for the page, such as "kube-rs 5.0.0, rustc 1.95.0"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program to compare, which has a row in the tables.

    A library that is measured with two settings has two peers, which share a build.
    """

    name: str
    """The name in the tables and for `--peers`: lower case, without spaces and commas."""
    make: Callable[[], Ready]
    """Builds the program if its sources have changed. Raises LeftOutError."""
    about: str
    """A clause that describes the peer on the page."""
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The parts and workloads in which the peer is not measured, with the reasons for the page."""


def build(name: str, sources: Path, make: Callable[[Path], None], *, toolchain: str) -> Path:
    """Return the folder with the build of `name`; call `make` first if sources or toolchain have changed.

    `sources` is a folder, or a file.

    Raises:
        LeftOutError: `make` raised it, or a program that it runs failed.
    """
    folder = BUILDS / name
    stamp, digest = folder / STAMP, _digest(sources, toolchain)
    if stamp.is_file() and stamp.read_text() == digest:
        return folder
    print(f"building {name} ...", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    make(folder)
    stamp.write_text(digest)
    return folder


def need(program: str) -> str:
    """Return the path of a required program.

    Raises:
        LeftOutError: the program is not on the PATH.
    """
    found = shutil.which(program)
    if found is None:
        raise LeftOutError(f"{program} is not on the PATH")
    return found


def run(command: Sequence[str | Path], *, folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a program of the build, and return its output.

    Raises:
        LeftOutError: the program fails or takes too long; the message has the end of its output.
    """
    shown = " ".join(str(part) for part in command[:3])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"{shown} ran for more than {BUILD_TIMEOUT:g} s") from None
    except OSError as error:
        raise LeftOutError(f"{shown}: {error}") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines()[-5:]
        raise LeftOutError(f"{shown} failed: {' / '.join(lines)}") from None
    return done.stdout


def _digest(sources: Path, toolchain: str) -> str:
    digest = hashlib.sha256(toolchain.encode())
    for path in [sources] if sources.is_file() else sorted(sources.rglob("*")):
        # Python files and their caches are not part of the build.
        if path.is_file() and path.suffix not in {".py", ".pyc"}:
            digest.update(f"{path.relative_to(sources)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
