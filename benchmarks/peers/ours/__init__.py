"""This project's manager."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from benchmarks.parts import PARTS
from benchmarks.peers.building import LeftOutError, Peer, Ready, build, run
from benchmarks.peers.interpreter import build_of, compile_for, find
from benchmarks.program import MEMCACHED, ROOT, Program
from manager.util.version import VERSION
from tests.support.manager_process import PROGRAM

__all__ = ["ALL_FIVE", "PEERS", "manager", "on_python"]

NAME = "operator-manager"
# The workload with all five operators, which only this project can run.
ALL_FIVE = "five"
# The manager's own packages.
PACKAGES = tuple(
    ROOT / name
    for name in (
        *("apis", "controllers", "manager", "manager_console", "manager_kinds", "manager_kubernetes_asyncio"),
        *("manager_shards", "manager_tools", "manager_tracing", "petstore"),
    )
)
# The parts that are also measured with other interpreters.
COMPARED = ("cold", "change")


def manager(name: str = NAME, program: Path = PROGRAM) -> Program:
    """Return a Program that runs `operator-manager run` or, for some workloads, `benchmarks.peers.ours`."""
    five = [
        *(str(program), "run", "--kubeconfig={kubeconfig}", "--metrics-bind-address={metrics}"),
        *("--health-probe-bind-address={health}", "--webhook-bind-address=0", "--console-bind-address=0"),
        "--log-level=warn",
    ]
    memcached = [*five, "--controllers=memcached", "--concurrency=memcached={concurrency}"]
    other = [sys.executable, "-m", "benchmarks.peers.ours", "--kubeconfig={kubeconfig}"]
    other += ["--concurrency={concurrency}", "--health-probe-bind-address={health}", "--workload={workload}"]
    return Program(name, other, {MEMCACHED: memcached, ALL_FIVE: five})


def on_python(text: str) -> Peer:
    """Return the manager with the interpreter `text`, a version or a program, in its own environment.

    Raises:
        ValueError: `text` is not a Python interpreter.
    """
    interpreter = find(text)
    try:
        version = build_of(interpreter)
    except LeftOutError as error:
        raise ValueError(str(error)) from None
    name = f"{NAME}-py{'.'.join(version.split()[1].split('.')[:2])}"

    def make() -> Ready:
        def fill(folder: Path) -> None:
            environ = {**os.environ, "PYTHON": interpreter}
            run([ROOT / "scripts" / "make-venv", folder / "venv", "demo"], folder=ROOT, environ=environ)

        folder = build(name, ROOT / "constraints.txt", fill, toolchain=f"{interpreter} {version}")
        compile_for(folder / "venv" / "bin" / "python", folder / "venv" / "lib", *PACKAGES)
        program = manager(name, folder / "venv" / "bin" / "operator-manager")
        return Ready(program=program, version=f"operator-manager {VERSION}, {version}")

    lacks = dict.fromkeys(
        (part for part in PARTS if part not in COMPARED),
        "other interpreters are measured only in a cold start and one change",
    )
    return Peer(name=name, make=make, about=f"this project on {version}", lacks=lacks)


def _make() -> Ready:
    compile_for(sys.executable, Path(sysconfig.get_path("purelib")), *PACKAGES)
    return Ready(program=manager(), version=f"operator-manager {VERSION}, {build_of(sys.executable)}")


PEERS = (Peer(name=NAME, make=_make, about="this project, with its own Memcached operator"),)
