"""Objects whose reconcile fails, as kubectl shows them."""

from __future__ import annotations

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import (
    condition,
    event_counts,
)
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached, memcached_path

pytestmark = pytest.mark.contract

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CREATED_DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}


def test_operator_reports_an_unreachable_webhook_in_the_status_of_the_owner(
    crds: ControlPlane, namespace: str, run_manager: RunManager
):
    path, wait = memcached_path(namespace, "m"), ("-n", namespace, "wait", "memcached/m", "--timeout=90s")
    webhook = {
        "name": "away.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
        "rules": [CREATED_DEPLOYMENTS],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    crds.api.create(CONFIGURATIONS, {"metadata": {"name": namespace}, "webhooks": [webhook]})
    try:
        crds.api.create(memcached_path(namespace), memcached("m", 0))
        manager = run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=memcached")
        crds.kubectl(*wait, "--for=condition=Degraded")
        obj = crds.api.get(path)
        degraded, available = condition(obj, "Degraded"), condition(obj, "Available")
        assert (degraded["reason"], degraded["observedGeneration"]) == ("ServerError", 1)
        assert degraded["message"].startswith("the reconcile failed: ")
        assert 'failed calling webhook "away.example.com"' in degraded["message"]
        assert (available["status"], available["reason"]) == ("Unknown", "ServerError")
        assert "observedGeneration" not in obj["status"]
        eventually(lambda: event_counts(crds, obj)["ServerError"])
        eventually(lambda: manager.metrics().value("controller_runtime_reconcile_errors_total") > 3)
        assert condition(crds.api.get(path), "Degraded") == degraded
        assert event_counts(crds, obj) == {"ServerError": 1}
    finally:
        crds.api.delete(f"{CONFIGURATIONS}/{namespace}")
    # The next reconcile needs a change of the object or the end of its back-off.
    crds.kubectl("-n", namespace, "annotate", "memcached/m", "seen=today")
    crds.kubectl(*wait, "--for=condition=Degraded=False")
    obj = crds.api.get(path)
    assert condition(obj, "Degraded")["reason"] == "AsExpected"
    assert obj["status"]["observedGeneration"] == 1
