"""The start of a manager, before there is an API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support.crds import install_crds
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached, memcached_path


@pytest.fixture
def gone(tmp_path: Path) -> Iterator[DevclusterControlPlane]:
    """Start and kill a control plane with the CRDs; a test can restart it at the same address."""
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
    assert line["msg"].startswith(f"the API server {gone.credentials.server}")
    assert line["msg"].endswith("Connection refused; the manager waits for it")
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
