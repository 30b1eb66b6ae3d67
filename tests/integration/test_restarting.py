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
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    command = [
        sys.executable,
        ROOT / "scripts/restarting",
        tmp_path / "marker",
        sys.executable,
        "-c",
        PROGRAM,
    ]
    daemon = Daemon("restarting", command, log=tmp_path / "log")
    daemon.start()
    yield daemon
    daemon.kill()


def test_restarting_restarts_program_when_marker_is_touched(daemon: Daemon, tmp_path: Path):
    eventually(lambda: daemon.output().splitlines() == ["started"])
    (tmp_path / "marker").touch()
    eventually(lambda: daemon.output().splitlines() == ["started", "stopped", "started"])
