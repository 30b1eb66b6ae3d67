"""A process that may have few files open says so, and answers who asks how it is."""

from __future__ import annotations

import json
import shlex
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane

LEAST = 64


def limited(*, soft: int, hard: int) -> tuple[str, ...]:
    """The program, with at most so many files open."""
    program = shlex.quote(str(PROGRAM))
    return ("/bin/sh", "-c", f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec {program} "$@"', "sh")


def test_a_limit_with_which_nothing_works_ends_it_with_one_line_that_names_it(
    run_manager: RunManager, tmp_path: Path
) -> None:
    file = Credentials(server="https://127.0.0.1:1", token="t").write(tmp_path / "kubeconfig")
    manager = run_manager(file, program=limited(soft=28, hard=28))
    assert manager.wait() == 1
    [line] = manager.process.output().splitlines()
    message = json.loads(line)["msg"]
    assert "28 open files" in message
    assert f"{LEAST}" in message
    assert "ulimit -n" in message


def test_connections_that_take_every_descriptor_keep_no_probe_out_and_are_told_once(
    crds: ControlPlane, run_manager: RunManager
) -> None:
    # The soft limit is too low to start with, and is raised.
    manager = run_manager(crds.kubeconfig, "--enable-webhooks=false", program=limited(soft=28, hard=LEAST))
    manager.wait_ready()

    def told() -> list[str]:
        return [each["msg"] for each in manager.logs(level="error") if "ulimit -n" in each.get("msg", "")]

    host, _, port = manager.metrics_address.partition(":")
    with ExitStack() as stack:
        for _ in range(2 * LEAST):
            stack.enter_context(socket.create_connection((host, int(port))))
        eventually(lambda: bool(told()))
        for _ in range(10):
            assert manager.probe("/healthz")[0] == 200
    assert len(told()) == 1
    eventually(lambda: "process_open_fds" in manager.scrape())
    eventually(manager.is_ready)
    assert manager.stop() == 0
    assert "Traceback" not in manager.process.output()
    assert "stacktrace" not in manager.process.output()
