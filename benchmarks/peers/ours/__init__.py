"""This project's manager."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from benchmarks.parts import PARTS
from benchmarks.peers.building import build, run
from benchmarks.peers.peer import LeftOutError, Peer, Ready
from benchmarks.program import MEMCACHED, ROOT, Program
from manager.version import VERSION
from tests.support.manager_process import PROGRAM

__all__ = ["ALL_FIVE", "PEERS", "manager", "on_python"]

NAME = "operator-manager"
# The workload of all five operators, which no other program has.
ALL_FIVE = "five"
# What another interpreter is measured in.
COMPARED = ("cold", "change")


def manager(name: str = NAME, program: Path = PROGRAM) -> Program:
    """`operator-manager run` with the Memcached operator; other workloads have a program of their own."""
    five = [
        *(str(program), "run", "--kubeconfig={kubeconfig}", "--metrics-bind-address={metrics}"),
        *("--health-probe-bind-address={health}", "--webhook-bind-address=0", "--console-bind-address=0"),
        "--log-level=warn",
    ]
    memcached = [*five, "--controllers=memcached", "--concurrency=memcached={concurrency}"]
    other = [sys.executable, "-m", "benchmarks.peers.ours", "--kubeconfig={kubeconfig}"]
    other += ["--concurrency={concurrency}", "--health-probe-bind-address={health}", "--workload={workload}"]
    return Program(name, other, {MEMCACHED: memcached, ALL_FIVE: five})


def on_python(interpreter: str) -> Peer:
    """The same on another interpreter, in an environment that is made for it.

    Raises:
        ValueError: it is no Python.
    """
    tell = "import platform; print(platform.python_version())"
    try:
        version = run([interpreter, "-c", tell], folder=ROOT).strip()
    except LeftOutError as error:
        raise ValueError(str(error)) from None
    name = f"{NAME}-py{'.'.join(version.split('.')[:2])}"

    def make() -> Ready:
        def fill(folder: Path) -> None:
            environ = {**os.environ, "PYTHON": interpreter}
            run([ROOT / "scripts" / "make-venv", folder / "venv", "demo"], folder=ROOT, environ=environ)

        folder = build(name, ROOT / "constraints.txt", fill, toolchain=version)
        program = manager(name, folder / "venv" / "bin" / "operator-manager")
        return Ready(program=program, version=f"operator-manager {VERSION}, Python {version}")

    lacks = dict.fromkeys(
        (part for part in PARTS if part not in COMPARED),
        "an interpreter is measured in a cold start and one change",
    )
    return Peer(name=name, make=make, about=f"this project on Python {version}", lacks=lacks)


def _make() -> Ready:
    return Ready(program=manager(), version=f"operator-manager {VERSION}, Python {platform.python_version()}")


PEERS = (Peer(name=NAME, make=_make, about="this project, with its own Memcached operator"),)
