"""A manager with a low limit of open files: it reports the limit, and answers health probes."""

from __future__ import annotations

import itertools
import json
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.daemon import limited
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import PROGRAM, ManagerProcess

LEAST = 128


def test_manager_exits_with_one_line_when_open_files_limit_is_too_low(
    run_manager: RunManager, tmp_path: Path
):
    file = Credentials(server="https://127.0.0.1:1", token="t").write(tmp_path / "kubeconfig")
    manager = run_manager(file, program=limited(PROGRAM, soft=28, hard=28))
    assert manager.wait() == 1
    [line] = manager.process.output().splitlines()
    told = json.loads(line)
    assert (told["limit"], told["needed"]) == (28, LEAST)
    assert "ulimit -n" in told["msg"]


@pytest.fixture
def start_limited(
    crds: ControlPlane, namespace: str, run_manager: RunManager
) -> Iterator[Callable[..., ManagerProcess]]:
    """Yield a function that starts a manager with few file descriptors; then assert that these were enough.

    The soft limit is too low, and the manager raises it to the hard limit. The manager watches one namespace,
    because objects of other tests would need more connections.
    """
    started: list[ManagerProcess] = []

    def start(*flags: str) -> ManagerProcess:
        quiet = ("--enable-webhooks=false", f"--namespaces={namespace}", *flags)
        program = limited(PROGRAM, soft=28, hard=LEAST)
        started.append(run_manager(crds.kubeconfig, *quiet, program=program).wait_ready())
        return started[0]

    yield start
    assert started[0].stop() == 0
    assert "Too many open files" not in started[0].process.output()
    assert limit_lines(started[0]) == []


def test_manager_keeps_descriptors_for_probes_during_a_connection_flood(
    start_limited: Callable[..., ManagerProcess],
):
    manager = start_limited()
    host, _, port = manager.metrics_address.partition(":")
    with ExitStack() as stack:
        for _ in range(2 * LEAST):
            stack.enter_context(socket.create_connection((host, int(port))))
        for _ in range(10):
            assert manager.probe("/healthz")[0] == 200
        assert 0 < manager.metrics().value("process_open_fds") < LEAST


@pytest.mark.long
def test_manager_keeps_descriptors_for_probes_during_unfinished_handshakes(
    start_limited: Callable[..., ManagerProcess],
):
    manager = start_limited("--metrics-secure")
    ports = [int(each.rpartition(":")[2]) for each in (manager.metrics_address, manager.health_address)]
    most, descriptors = 0, Path(f"/proc/{manager.process.pid}/fd")
    for half in [b"\x16\x03\x01", b"GET /healthz HT"] * 5:
        with ExitStack() as stack:
            for number, port in itertools.product(range(LEAST), ports):
                source = (f"127.0.1.{number + 1}", 0)
                client = socket.create_connection(("127.0.0.1", port), source_address=source)
                stack.enter_context(client).sendall(half)
            assert manager.probe("/healthz")[0] == 200
            most = max(most, sum(1 for _ in descriptors.iterdir()))
    assert most < LEAST * 7 // 8


def test_manager_logs_once_that_all_descriptors_are_in_use_and_recovers(
    crds: ControlPlane, namespace: str, run_manager: RunManager
):
    # An operator without objects, and without gRPC, which would write its own tracebacks.
    quiet = ("--enable-webhooks=false", f"--namespaces={namespace}", "--controllers=mysrv")
    manager = run_manager(crds.kubeconfig, *quiet)
    manager.wait_ready()
    pid, limit = manager.process.pid, resource.RLIMIT_NOFILE
    before = resource.prlimit(pid, limit)
    resource.prlimit(pid, limit, (10, before[1]))
    eventually(lambda: bool(limit_lines(manager)))
    resource.prlimit(pid, limit, before)
    eventually(manager.is_ready)
    assert manager.stop() == 0
    [line] = limit_lines(manager)
    assert line["limit"] == 10
    assert "stacktrace" not in manager.process.output()


def limit_lines(manager: ManagerProcess) -> list[dict[str, Any]]:
    """Return the log lines about the limit of open files."""
    return [line for line in manager.logs(level="error") if "ulimit -n" in line.get("msg", "")]
