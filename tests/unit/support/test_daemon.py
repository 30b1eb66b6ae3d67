from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.eventually import eventually

SHELL = "/bin/sh"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
@pytest.mark.parametrize(
    "command",
    [[SHELL, "-c", "sleep 60"], [sys.executable, "-m", "http.server", "0", "--bind=127.0.0.1"]],
    ids=["started from its file", "forked"],
)
def test_daemon_does_not_outlive_a_killed_test_run(tmp_path: Path, command: list[str]):
    program = f"""
import pathlib, time
from tests.support.daemon import Daemon
from tests.support.fork_server import fork_our_programs
fork_our_programs()
daemon = Daemon("sleep", {command}, log=pathlib.Path({str(tmp_path)!r}) / "log")
daemon.start()
print(daemon.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        os.kill(orphan, 0)
        parent.kill()
    eventually(lambda: not Path(f"/proc/{orphan}").exists() or is_zombie(orphan), every=0.01)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
