"""External programs that some tests use, from the tools folder or from the PATH."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import ROOT

UNPACK = ROOT.parent / "shared" / "tools" / "unpack"


@functools.cache
def _folder() -> str | None:
    if not UNPACK.exists():
        return None
    done = subprocess.run([UNPACK], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def tool(name: str) -> Path:
    """Return the program from the tools folder or the PATH; skip the test if it is in neither."""
    found = shutil.which(name, path=_folder()) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}, neither in {UNPACK.parent} nor on the PATH")
    return Path(found)


def output_of(
    *command: str | Path, cwd: Path = ROOT, environ: Mapping[str, str] | None = None, timeout: float = 300
) -> str:
    """Return the stdout of a command; fail with all output. `environ` replaces the environment."""
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
