from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, DaemonDied, wait_until
from tests.support.eventually import eventually
from tests.support.ports import PortBlock

ROOT = Path(__file__).parents[3]
SHELL = "/bin/sh"


def script(text: str, folder: Path) -> Daemon:
    return Daemon("script", [SHELL, "-c", text], log=folder / "log")


def test_what_it_writes_is_kept_over_its_runs(tmp_path: Path) -> None:
    daemon = script("echo out; echo err >&2; exit 3", tmp_path)
    for _ in range(2):
        daemon.start()
        assert daemon.wait(10) == 3
    assert daemon.output() == "out\nerr\n" * 2


def test_a_program_that_died_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    daemon = script("echo the reason; exit 1", tmp_path)
    daemon.start()
    with pytest.raises(DaemonDied, match=r"script ended with 1; (?s:.*)the reason"):
        wait_until(daemon, lambda: False, timeout=10, what="nothing")


def test_one_that_ignores_the_request_to_stop_is_killed(tmp_path: Path) -> None:
    daemon = script("trap '' TERM; echo ready; while :; do sleep 1; done", tmp_path)
    daemon.start()
    eventually(lambda: "ready" in daemon.output(), every=0.01)
    daemon.stop(grace=0.05)
    assert daemon.exit_code == -signal.SIGKILL


def test_a_frozen_one_stops_too(tmp_path: Path) -> None:
    daemon = script("sleep 60", tmp_path)
    daemon.start()
    daemon.freeze()
    daemon.stop()
    assert daemon.exit_code == -signal.SIGTERM


def test_the_whole_group_gets_the_signal(tmp_path: Path) -> None:
    daemon = script("sleep 60 & echo $!; wait", tmp_path)
    daemon.start()
    child = int(eventually(lambda: daemon.output() or False, every=0.01))
    daemon.kill()
    eventually(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child), every=0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_it_does_not_outlive_a_killed_test_run(tmp_path: Path) -> None:
    run = f"""
import pathlib, time
from tests.support.daemon import Daemon
daemon = Daemon("sleep", ["{SHELL}", "-c", "sleep 60"], log=pathlib.Path({str(tmp_path)!r}) / "log")
daemon.start()
print(daemon.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        os.kill(orphan, 0)
        parent.kill()
    eventually(lambda: not Path(f"/proc/{orphan}").exists() or is_zombie(orphan), every=0.01)


def test_blocks_of_ports_do_not_overlap() -> None:
    sizes = [1 + number % 7 for number in range(140)]
    blocks = [PortBlock(size) for size in sizes]
    # Nobody listens on them yet: it must not be chance that keeps them apart.
    ports = [block[index] for block, size in zip(blocks, sizes, strict=True) for index in range(size)]
    for block in blocks:
        block.close()
    assert len(set(ports)) == sum(sizes)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
