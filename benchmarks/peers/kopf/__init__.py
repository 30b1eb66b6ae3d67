"""The Python library kopf, in its own virtual environment."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.building import Peer, Ready, build, run
from benchmarks.peers.interpreter import build_of, compile_for
from benchmarks.program import by_contract

__all__ = ["PEERS"]

NAME = "kopf"
SOURCES = Path(__file__).parent
REQUIREMENTS = SOURCES / "requirements.txt"
NO_ELECTION = "it has no leader election"
NO_METADATA = "it has no metadata-only watch"


def _make() -> Ready:
    # Only the environment is built; the operator runs from its sources.
    folder = build(NAME, REQUIREMENTS, _install, toolchain=f"{sys.base_prefix} {sys.version}")
    python = folder / "venv" / "bin" / "python"
    compile_for(python, folder / "venv" / "lib", SOURCES)
    program = by_contract(NAME, str(python), str(SOURCES / "memcached_operator"))
    tell = "from importlib.metadata import version as v;"
    tell += ' print(f\'kopf {v("kopf")}, uvloop {v("uvloop")}\')'
    libraries = run([python, "-c", tell], folder=folder).strip()
    return Ready(program=program, version=f"{libraries}, {build_of(python)}")


def _install(folder: Path) -> None:
    venv = folder / "venv"
    run([sys.executable, "-m", "venv", "--clear", venv], folder=folder)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([venv / "bin" / "python", *install, "--requirement", REQUIREMENTS], folder=folder)


PEERS = (
    Peer(
        name=NAME,
        make=_make,
        about="kopf, the Python framework, with handlers of causes, of children's events, and indexes",
        lacks={"takeover": NO_ELECTION, "pods-metadata": NO_METADATA},
    ),
)
