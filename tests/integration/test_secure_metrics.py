"""/metrics over HTTPS: who gets to see it, and with which certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.roles import MANAGER, Roles, ServiceAccount, scrape

METRICS = ("metrics_auth_role.yaml", "metrics_auth_role_binding.yaml")
FLAGS = ("--metrics-secure", "--controllers=memcached")
CANNOT_ASK = "cannot ask the API server who may see this page"
TOKEN_REVIEWS = Match("POST", "/tokenreviews$")
ACCESS_REVIEWS = Match("POST", "/subjectaccessreviews$")


@pytest.fixture
def manager_kubeconfig(crds: ControlPlane, namespace: str) -> Path:
    """Return the kubeconfig of a manager with only the rights in config/rbac/."""
    user = f"{namespace}-manager"
    kubeconfig = crds.user_kubeconfig(user)
    Roles(crds, user, namespace).grant(*MANAGER, *METRICS)
    return kubeconfig


@pytest.fixture
def prometheus(crds: ControlPlane, namespace: str) -> ServiceAccount:
    """Create an account with the role of a metrics reader."""
    account = ServiceAccount(crds, namespace, "prometheus")
    account.may_read_metrics()
    return account


@pytest.fixture
def unprivileged(crds: ControlPlane, namespace: str) -> ServiceAccount:
    """Create an account without that role."""
    return ServiceAccount(crds, namespace, "unprivileged")


@pytest.mark.contract
def test_metrics_endpoint_serves_only_accounts_that_may_read_metrics(
    manager_kubeconfig: Path,
    prometheus: ServiceAccount,
    unprivileged: ServiceAccount,
    namespace: str,
    run_manager: RunManager,
    fault_proxy: Callable[[Path], FaultProxy],
):
    proxy = fault_proxy(manager_kubeconfig)
    manager = run_manager(proxy.kubeconfig, f"--namespaces={namespace}", *FLAGS).wait_ready()
    address, token = manager.metrics_address, prometheus.token()

    status, text = scrape(address, token)
    assert status == 200, text
    assert "controller_runtime_reconcile_total" in text
    assert scrape(address) == (401, "Unauthorized\n")
    assert scrape(address, "not.a.token") == (401, "Unauthorized\n")
    assert scrape(address, token[:-6] + "forged") == (401, "Unauthorized\n")
    denied = (403, f"Authorization denied for user {unprivileged.user}\n")
    assert scrape(address, unprivileged.token()) == denied

    # Asked once, remembered for a while.
    asked = proxy.count(TOKEN_REVIEWS), proxy.count(ACCESS_REVIEWS)
    for _ in range(3):
        assert scrape(address, token)[0] == 200
    assert (proxy.count(TOKEN_REVIEWS), proxy.count(ACCESS_REVIEWS)) == asked

    # Without the API server, only a token that it accepted before still opens the page.
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
