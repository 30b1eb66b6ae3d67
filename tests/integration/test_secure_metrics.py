"""/metrics over HTTPS: who gets to see it, and with which certificate."""

from __future__ import annotations

import http.client
import shutil
import socket
import sys
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.metrics_clients import Prometheus, ServiceAccount, scrape, trusting
from tests.support.roles import MANAGER, Roles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane
    from tests.support.fault_proxy import FaultProxy

SHORT_LIVED = (sys.executable, "-m", "tests.integration.webhook.short_lived")
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


def test_a_manager_without_the_right_to_ask_lets_nobody_in_and_says_why(
    crds: ControlPlane, prometheus: ServiceAccount, namespace: str, run_manager: RunManager
) -> None:
    user = f"{namespace}-restricted"
    kubeconfig = crds.user_kubeconfig(user)
    Roles(crds, user, namespace).grant(*MANAGER)
    manager = run_manager(kubeconfig, f"--namespaces={namespace}", *FLAGS).wait_ready()
    assert scrape(manager.metrics_address, prometheus.token()) == (500, "Authentication failed\n")

    def it_says_why() -> None:
        [line] = manager.logs(msg=CANNOT_ASK)
        assert "tokenreviews" in line["error"]
        assert user in line["error"]

    eventually(it_says_why)


def test_a_certificate_is_replaced_while_metrics_are_read(
    manager_kubeconfig: Path,
    prometheus: ServiceAccount,
    namespace: str,
    run_manager: RunManager,
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    folder = tmp_path / "certificates"
    renew(folder, authority)
    flags = (f"--namespaces={namespace}", f"--metrics-cert-path={folder}", *FLAGS)
    manager = run_manager(manager_kubeconfig, *flags, program=SHORT_LIVED).wait_ready()
    address, token = manager.metrics_address, prometheus.token()
    context = trusting(authority.cert_pem.bytes())
    assert scrape(address, token, context=context)[0] == 200

    host = urllib.parse.urlsplit(f"//{address}")
    kept = http.client.HTTPSConnection(str(host.hostname), host.port, context=context, timeout=20)
    headers = {"Authorization": f"Bearer {token}"}

    def presented() -> bytes:
        with (
            socket.create_connection((str(host.hostname), host.port), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname=host.hostname) as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""

    def ask_on_the_connection_kept() -> None:
        kept.request("GET", "/metrics", headers=headers)
        answer = kept.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (200, True)

    first, statuses, done = presented(), list[int](), threading.Event()

    def keep_scraping() -> None:
        while not done.is_set():
            statuses.append(scrape(address, token, context=context)[0])

    ask_on_the_connection_kept()
    own_socket = kept.sock
    scraping = threading.Thread(target=keep_scraping)
    scraping.start()
    try:
        # A pair that does not fit is not taken, and what was there is served on.
        good_key = (folder / "tls.key").read_bytes()
        (folder / "tls.key").write_bytes(b"half a k")
        eventually(lambda: len(manager.logs(logger="tls", level="warn")) == 1)
        assert presented() == first
        (folder / "tls.key").write_bytes(good_key)
        renew(folder, authority)
        eventually(lambda: presented() != first)
    finally:
        done.set()
        scraping.join()
    assert set(statuses) == {200}
    ask_on_the_connection_kept()
    assert kept.sock is own_socket
    kept.close()


def renew(folder: Path, authority: trustme.CA) -> None:
    """Put a new certificate there, as the kubelet does with a Secret: the folder's link is swapped."""
    folder.mkdir(exist_ok=True)
    version = folder / f"..{len(list(folder.iterdir()))}"
    version.mkdir()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    (version / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (version / "tls.key").write_bytes(issued.private_key_pem.bytes())
    link = folder / "..data_tmp"
    link.symlink_to(version.name)
    link.replace(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_a_certificate_that_is_not_there_ends_the_start(
    crds: ControlPlane, run_manager: RunManager, namespace: str, tmp_path: Path
) -> None:
    manager = run_manager(crds.kubeconfig, f"--metrics-cert-path={tmp_path / 'nothing'}", *FLAGS)
    assert manager.wait() == 1
    [line] = manager.logs(level="error")
    assert line["msg"] == (
        f"cannot serve metrics on {manager.metrics_address}: "
        f"{tmp_path / 'nothing' / 'tls.crt'} cannot be read: No such file or directory"
    )


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
    renew(tmp_path / "certificates", authority)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text(prometheus.token())
    flags = (f"--namespaces={namespace}", f"--metrics-cert-path={tmp_path / 'certificates'}", *FLAGS)
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
