"""The start of a manager without an API server, with invalid credentials, or with a port in use."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.eventually import eventually
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import run_once
from tests.support.memcacheds import memcached, memcached_path


@pytest.fixture
def gone(tmp_path: Path) -> Iterator[DevclusterControlPlane]:
    """Kill a control plane that has CRDs; yield it, so that the test can restart it at the same address."""
    with DevclusterControlPlane(tmp_path / "plane") as plane:
        install_crds(plane)
        plane.kill("apiserver")
        yield plane


@pytest.mark.parametrize("flag", ["--leader-elect", "--shards=4", "--enable-webhooks"])
def test_manager_waits_for_an_api_server_that_is_started_later(
    gone: DevclusterControlPlane, run_manager: RunManager, flag: str
):
    webhooks = ["--webhook-bind-address=127.0.0.1:0"] if flag == "--enable-webhooks" else []
    manager = run_manager(gone.kubeconfig, flag, "--leader-election-namespace=default", *webhooks)
    eventually(lambda: bool(manager.logs(level="warn")))
    [line] = manager.logs(level="warn")
    assert line["msg"] == "waiting for the API server"
    assert line["error"].startswith(f"the API server {gone.credentials.server}")
    assert line["error"].endswith("Connection refused")
    assert manager.probe("/healthz")[0] == 200
    status, text = manager.probe("/readyz")
    assert status == 500
    assert "[-]start failed: the API server" in text
    gone.restart("apiserver")
    manager.wait_ready()
    assert manager.logs(msg="the API server answers")
    gone.api.create(memcached_path("default"), memcached("late"))
    eventually(lambda: gone.api.get(f"{memcached_path('default')}/late")["status"]["replicas"] == 3)
    assert manager.stop() == 0
    assert manager.logs(level="warn") == [line]
    assert not manager.logs(level="error")


def last_word(done: subprocess.CompletedProcess[str]) -> str:
    """Return the error in the last log line; assert that no other line is an error."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line for line in lines if line["level"] == "error"] == lines[-1:]
    assert "stacktrace" not in lines[-1]
    return str(lines[-1]["error"])


@pytest.mark.contract
def test_run_error_says_that_the_server_does_not_accept_the_credentials(
    control_plane: ControlPlane, tmp_path: Path
):
    known = control_plane.credentials
    wrong = Credentials(server=known.server, authority=known.authority, token="wrong")
    file = wrong.write(tmp_path / "kubeconfig")
    assert "does not accept the credentials" in last_word(
        run_once("run", f"--kubeconfig={file}", folder=tmp_path)
    )


@pytest.mark.parametrize("what", ["metrics", "health-probe", "console"])
def test_run_error_names_the_port_in_use_and_its_flag(control_plane: ControlPlane, tmp_path: Path, what: str):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = f"127.0.0.1:{listening.getsockname()[1]}"
        addresses = dict.fromkeys(("metrics", "health-probe", "console", "webhook"), "0") | {what: taken}
        flags = [f"--{name}-bind-address={address}" for name, address in addresses.items()]
        done = run_once("run", f"--kubeconfig={control_plane.kubeconfig}", *flags, folder=tmp_path)
    message = last_word(done)
    where = f"{taken} (--{what}-bind-address)"
    assert message == f"cannot serve {what.removesuffix('-probe')} on {where}: Address already in use"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_manager_exits_cleanly_on_a_signal_while_it_waits_for_the_api_server(
    run_manager: RunManager, tmp_path: Path, number: signal.Signals
):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        file = Credentials(server=url, token="t").write(tmp_path / "kubeconfig")
        manager = run_manager(file)
        connection, _ = silent.accept()
        with connection:
            manager.process.signal(number)
            assert manager.wait() == 0
    assert {line["level"] for line in manager.logs()} == {"info"}
