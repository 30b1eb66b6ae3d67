"""Python interpreters to measure: the optimisations of their builds, and compilation of bytecode for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.peers.building import run
from benchmarks.program import ROOT

__all__ = ["build_of", "compile_for", "find", "why_not_as_shipped"]

FIND = ROOT / "scripts" / "find-python"
TELL = (
    "import platform as p, sysconfig as s; print(p.python_version()); print(s.get_config_var('CONFIG_ARGS'))"
)
# Debian's build configuration names neither option, but Debian always builds with both.
DEBIAN = "--with-wheel-pkg-dir=/usr/share/python-wheels/"
OPTIMISATIONS = {"--enable-optimizations": "PGO", "--with-lto": "LTO"}


def build_of(python: str | Path) -> str:
    """Return an interpreter's version and optimisation: "Python 3.13.16 with PGO and LTO".

    Raises:
        LeftOutError: `python` is not a Python interpreter.
    """
    version, configured = run([python, "-c", TELL], folder=ROOT).splitlines()
    return f"Python {version} {optimisation(configured)}"


def optimisation(configured: str) -> str:
    """Return the optimisations with which an interpreter was built."""
    found = [name for option, name in OPTIMISATIONS.items() if option in configured or DEBIAN in configured]
    return f"with {' and '.join(found)}" if found else "without PGO and LTO"


def find(text: str) -> str:
    """Return the path of the interpreter of a version such as 3.11, or a program's name as it is given.

    Raises:
        ValueError: this machine has no such version.
    """
    if not text.replace(".", "").isdecimal():
        return text
    done = subprocess.run([FIND, text], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout.strip()


def compile_for(python: str | Path, *folders: Path) -> None:
    """Write bytecode of all modules in the folders, so that no figure includes compilation.

    Raises:
        LeftOutError: a folder cannot be written to.
    """
    run([python, "-m", "compileall", "-q", *folders], folder=ROOT)


def why_not_as_shipped() -> str:
    """Return the reason why this interpreter's figures do not apply to the released images, or ""."""
    shipped = subprocess.run([FIND, "--version", "image"], capture_output=True, text=True, check=True)
    mine = build_of(sys.executable)
    if "{}.{}".format(*sys.version_info) != shipped.stdout.strip():
        return f"this is {mine}, and the images have {shipped.stdout.strip()}"
    if "PGO" not in mine:
        return f"this is {mine}, and the images' interpreter is optimised"
    return ""
