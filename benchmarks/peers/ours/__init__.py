"""This project's manager."""

from __future__ import annotations

import platform
import sys

from benchmarks.peers.peer import Peer, Ready
from benchmarks.program import MEMCACHED, Program
from manager.version import VERSION
from tests.support.manager_process import PROGRAM

__all__ = ["PEERS", "manager"]

NAME = "operator-manager"


def manager(name: str = NAME) -> Program:
    """`operator-manager run` with the Memcached operator; other workloads have a program of their own."""
    memcached = [
        *(str(PROGRAM), "run", "--kubeconfig={kubeconfig}", "--metrics-bind-address=0"),
        *("--health-probe-bind-address={health}", "--webhook-bind-address=0", "--console-bind-address=0"),
        "--controllers=memcached",
        *("--concurrency=memcached={concurrency}", "--log-level=warn"),
    ]
    other = [sys.executable, "-m", "benchmarks.peers.ours", "--kubeconfig={kubeconfig}"]
    other += ["--concurrency={concurrency}", "--health-probe-bind-address={health}", "--workload={workload}"]
    return Program(name, other, {MEMCACHED: memcached})


def _make() -> Ready:
    return Ready(program=manager(), version=f"operator-manager {VERSION}, Python {platform.python_version()}")


PEERS = (Peer(name=NAME, make=_make, about="this project, with its own Memcached operator"),)
