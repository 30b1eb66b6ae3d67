from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.eventually import eventually
from tests.support.fork_server import run

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


SHOWN = """
import os, signal, sys
print(__name__, sys.argv[1:], os.environ["WORD"], os.environ.get("HOME"), os.getcwd())
print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), [int(f) < 3 for f in os.listdir("/proc/self/fd")])
print(signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "end", ["sys.exit('the reason')", "sys.exit(3)", "os.kill(0, signal.SIGTERM)", "1 / 0"]
)
def test_forked_program_behaves_as_one_started_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
):
    (tmp_path / "shown.py").write_text(f"{SHOWN}print(len(sys.modules), end='', flush=True)\n{end}\n")
    monkeypatch.chdir(tmp_path)
    environ = {name: value for name, value in os.environ.items() if name != "HOME"} | {"WORD": "so"}
    command = (sys.executable, "-m", "shown", "--flag", "name")
    forked = run(*command, environ=environ, timeout=30)
    started = run(*command, environ={**environ, "PYTHONHASHSEED": "7"}, timeout=30)
    assert forked.returncode == started.returncode
    *said, modules = forked.stdout.splitlines()
    *same, fewer = started.stdout.splitlines()
    assert said == same
    assert int(modules) > 2 * int(fewer)
    own = [line for line in forked.stderr.splitlines() if "fork_server.py" not in line]
    assert [own[0], own[-1]] == [started.stderr.splitlines()[index] for index in (0, -1)]


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
