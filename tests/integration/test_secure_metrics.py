"""/metrics over HTTPS: who gets to see it, and with which certificate."""

from __future__ import annotations

import shutil
import socket
import time
import urllib.parse
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.metrics_clients import Prometheus, ServiceAccount, scrape
from tests.support.roles import MANAGER, Roles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy

METRICS = ("metrics_auth_role.yaml", "metrics_auth_role_binding.yaml")
FLAGS = ("--metrics-secure", "--controllers=memcached")
CANNOT_ASK = "cannot ask the API server who may see this page"
TOKEN_REVIEWS = Match("POST", "/tokenreviews$")
ACCESS_REVIEWS = Match("POST", "/subjectaccessreviews$")


@pytest.fixture
def manager_kubeconfig(crds: ControlPlane, namespace: str) -> Path:
    """A manager with no more rights than config/rbac/ gives it."""
    user = f"{namespace}-manager"
    kubeconfig = crds.user_kubeconfig(user)
    Roles(crds, user, namespace).grant(*MANAGER, *METRICS)
    return kubeconfig


@pytest.fixture
def prometheus(crds: ControlPlane, namespace: str) -> ServiceAccount:
    """An account with the role of a reader."""
    account = ServiceAccount(crds, namespace, "prometheus")
    account.may_read_metrics()
    return account


@pytest.fixture
def stranger(crds: ControlPlane, namespace: str) -> ServiceAccount:
    """An account without."""
    return ServiceAccount(crds, namespace, "stranger")


@pytest.mark.contract
def test_who_may_read_metrics_sees_them_and_nobody_else(
    manager_kubeconfig: Path,
    prometheus: ServiceAccount,
    stranger: ServiceAccount,
    namespace: str,
    run_manager: RunManager,
    fault_proxy: Callable[[Path], FaultProxy],
) -> None:
    proxy = fault_proxy(manager_kubeconfig)
    manager = run_manager(proxy.kubeconfig, f"--namespaces={namespace}", *FLAGS).wait_ready()
    address, token = manager.metrics_address, prometheus.token()

    status, text = scrape(address, token)
    assert status == 200, text
    assert "controller_runtime_reconcile_total" in text
    assert scrape(address) == (401, "Unauthorized\n")
    assert scrape(address, "not.a.token") == (401, "Unauthorized\n")
    assert scrape(address, token[:-6] + "forged") == (401, "Unauthorized\n")
    denied = (403, f"Authorization denied for user {stranger.user}\n")
    assert scrape(address, stranger.token()) == denied

    # Asked once, remembered for a while.
    asked = proxy.count(TOKEN_REVIEWS), proxy.count(ACCESS_REVIEWS)
    for _ in range(3):
        assert scrape(address, token)[0] == 200
    assert (proxy.count(TOKEN_REVIEWS), proxy.count(ACCESS_REVIEWS)) == asked

    # Without the API server the page is still there for who was let in, and for nobody else.
    other = prometheus.token()
    proxy.refuse()
    assert scrape(address, token)[0] == 200
    began = time.monotonic()
    assert scrape(address, other) == (500, "Authentication failed\n")
    assert time.monotonic() - began < 20
    proxy.accept()
    assert scrape(address, other)[0] == 200

    assert manager.stop() == 0
    assert len(manager.logs(msg=CANNOT_ASK)) == 1
    log = manager.process.output()
    for secret in (token, other, "not.a.token", "forged"):
        assert secret not in log


def test_silent_clients_keep_neither_the_scraper_nor_the_kubelet_out(
    manager_kubeconfig: Path, prometheus: ServiceAccount, namespace: str, run_manager: RunManager
) -> None:
    manager = run_manager(manager_kubeconfig, f"--namespaces={namespace}", *FLAGS).wait_ready()
    silent = []
    try:
        for address in (manager.metrics_address, manager.health_address):
            host, _, port = address.rpartition(":")
            for number in range(300):
                silent.append(socket.create_connection((host, int(port)), timeout=20))
                if number % 2:
                    silent[-1].send(b"\x16\x03\x01\x02" if address == manager.metrics_address else b"GET /")
        assert manager.probe("/healthz") == (200, "ok")
        assert manager.is_ready()
        assert scrape(manager.metrics_address, prometheus.token())[0] == 200
    finally:
        for each in silent:
            each.close()
    assert manager.stop(timeout=25) == 0  # and the grace would be 30


def test_prometheus_reads_them_with_the_token_of_its_service_account(
    manager_kubeconfig: Path,
    prometheus: ServiceAccount,
    namespace: str,
    run_manager: RunManager,
    tmp_path: Path,
) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus on this machine")
    authority = trustme.CA()
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    (certificates / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (certificates / "tls.key").write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text(prometheus.token())
    flags = (f"--namespaces={namespace}", f"--metrics-cert-path={certificates}", *FLAGS)
    manager = run_manager(manager_kubeconfig, *flags).wait_ready()
    target = {
        "job_name": "operator-manager",
        "scheme": "https",
        "scrape_interval": "1s",
        "authorization": {"credentials_file": str(tmp_path / "token")},
        "tls_config": {"ca_file": str(tmp_path / "ca.crt"), "server_name": "localhost"},
        "static_configs": [{"targets": [manager.metrics_address]}],
    }
    with Prometheus(tmp_path / "prometheus", {"scrape_configs": [target]}) as reader:

        def is_read() -> None:
            [found] = reader.get("/api/v1/targets")["data"]["activeTargets"]
            assert (found["health"], found["lastError"]) == ("up", "")
            query = urllib.parse.quote('controller_runtime_max_concurrent_reconciles{controller="memcached"}')
            [sample] = reader.get(f"/api/v1/query?query={query}")["data"]["result"]
            assert float(sample["value"][1]) >= 1

        eventually(is_read)
