"""Runs `make` as a user does, even within `make test`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT

# The virtual environment of the tests, as the Makefile names it.
VENV = os.path.relpath(sys.prefix, ROOT)
# Variables that make passes to a child make: the depth, which messages show, and its flags, with variables
# of the command line, such as VERSIONS.
HANDED_ON = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKEFILES", "VERSIONS")


def make(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run make in `folder`; add `environ` to the environment of this process."""
    inherited = {name: value for name, value in os.environ.items() if name not in HANDED_ON}
    return subprocess.run(
        ["make", *([f"VENV={VENV}"] if folder == ROOT else []), *arguments],
        cwd=folder,
        env={**inherited, **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
