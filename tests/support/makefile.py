"""`make` as a person calls it, also when the tests themselves run below one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT

# What a make hands to those that it calls: how deep they are, which shows in messages, and its own flags,
# variables of the command line among them.
HANDED_ON = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKEFILES")


def make(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    program: str = "make",
    timeout: float = 60,
    folder: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run it in a project's folder, ours by default, to its end, with `environ` on top of this process's."""
    inherited = {name: value for name, value in os.environ.items() if name not in HANDED_ON}
    return subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={**inherited, **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
