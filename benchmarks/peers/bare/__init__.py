"""The baseline of the comparison: a program that sends only the necessary writes."""

from __future__ import annotations

import sys
from importlib.metadata import version

from benchmarks.parts import PARTS
from benchmarks.peers.building import Peer, Ready
from benchmarks.peers.interpreter import build_of
from benchmarks.program import Program

__all__ = ["PEERS", "bare_loop"]

NAME = "bare"
NO_OPERATOR = "it has no watches"


def bare_loop(name: str = NAME) -> Program:
    """Return a program that processes the Memcacheds once."""
    command = [sys.executable, "-m", "benchmarks.peers.bare", "--kubeconfig={kubeconfig}"]
    return Program(name, [*command, "--concurrency={concurrency}"])


def _make() -> Ready:
    return Ready(program=bare_loop(), version=f"aiohttp {version('aiohttp')}, {build_of(sys.executable)}")


PEERS = (
    Peer(
        name=NAME,
        make=_make,
        about="a Python loop that only sends the writes of the work: no operator, but a yardstick",
        lacks=dict.fromkeys((part for part in PARTS if part != "cold"), NO_OPERATOR),
    ),
)
