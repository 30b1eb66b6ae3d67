"""`scripts/restarting`, which starts a program again in a container of `tilt up`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.daemon import Daemon
from tests.support.eventually import eventually

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("stopped", flush=True), sys.exit(7)))
print("started", flush=True)
if sys.argv[1:] == ["fail"]:
    sys.exit(3)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "restart"


@pytest.fixture
def run(tmp_path: Path, marker: Path) -> Iterator[Daemon]:
    command = [sys.executable, ROOT / "scripts" / "restarting", marker, sys.executable, "-c", PROGRAM]
    daemon = Daemon("restarting", command, log=tmp_path / "log")
    daemon.start()
    yield daemon
    daemon.kill()


def wrote(daemon: Daemon, *lines: str) -> None:
    eventually(lambda: daemon.output().split("\n")[:-1] == list(lines))


def test_restarting_restarts_program_when_marker_is_touched(run: Daemon, marker: Path):
    wrote(run, "started")
    marker.touch()
    wrote(run, "started", "stopped", "started")


def test_restarting_starts_failed_program_again_after_next_touch(tmp_path: Path, marker: Path):
    command = [sys.executable, ROOT / "scripts" / "restarting", marker, sys.executable, "-c", PROGRAM, "fail"]
    daemon = Daemon("restarting", command, log=tmp_path / "log")
    daemon.start()
    try:
        waiting = "restarting: it ended with 3; waiting for a change"
        wrote(daemon, "started", waiting)
        marker.touch()
        wrote(daemon, "started", waiting, "started", waiting)
    finally:
        daemon.kill()
