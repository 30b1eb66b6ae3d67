"""The MySrv operator, exercised with kubectl as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, event_counts
from tests.support.control_plane import ControlPlane
from tests.support.eventually import consistently, eventually
from tests.support.walk import Walk, walking

pytestmark = pytest.mark.contract

SAMPLE = "config/samples/myapp_v1alpha1_mysrv.yaml"
API = "myapp.idcos.com/v1alpha1"


class MySrvWalk(Walk):
    """Walk through MySrvs in one namespace."""

    def mysrv(self, name: str = "mysrv-sample") -> dict[str, Any]:
        return self.get(API, "mysrvs", name)

    def is_available(self, name: str = "mysrv-sample") -> None:
        found = self.mysrv(name)
        assert found["status"]["status"] == "Available"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert condition(found, "Ready")["status"] == "True"


@pytest.fixture
def walk(crds: ControlPlane, namespace: str, run_manager: RunManager) -> Iterator[MySrvWalk]:
    manager = run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=mysrv")
    with walking(MySrvWalk, crds, namespace, manager) as walk:
        yield walk


@pytest.mark.oldest
@pytest.mark.smoke
def test_mysrv_sample_works_end_to_end(walk: MySrvWalk):
    walk.kubectl("apply", "-f", SAMPLE)
    walk.kubectl("wait", "--for=condition=Ready", "--timeout=90s", "mysrv/mysrv-sample")
    walk.is_available()
    header, row = walk.kubectl("get", "mysrvs").splitlines()
    assert header.split() == ["NAME", "NAME", "PORT", "STATUS", "AGE"]
    assert row.split()[:4] == ["mysrv-sample", "CloudCMP", "80", "Available"]
    assert "The port that it listens on" in walk.kubectl("explain", "mysrv.spec")

    walk.kubectl("patch", "mysrv", "mysrv-sample", "--type=merge", "-p", '{"spec":{"port":443}}')
    eventually(walk.is_available)
    assert "port 443" in condition(walk.mysrv(), "Ready")["message"]
    walk.kubectl("label", "mysrv/mysrv-sample", "seen=yes")
    settled = walk.mysrv()["metadata"]["resourceVersion"]
    consistently(lambda: walk.mysrv()["metadata"]["resourceVersion"] == settled, during=1)
    eventually(lambda: sum(event_counts(walk.plane, walk.mysrv()).values()) == 2)
    assert walk.reconciles("mysrv") == 2

    def writes() -> dict[str, float]:
        sent = walk.manager.metrics().select("rest_client_requests_total")
        return {each.labels["method"]: each.value for each in sent if each.labels["method"] != "GET"}

    # Two writes of the status, two Events, and three times the question whether it may look at what webhooks
    # point to; it makes nothing, and touches nothing else. A request is counted once its answer is there,
    # which may be after we have seen what it did.
    eventually(lambda: sum(writes().values()) >= 7)
    assert writes() == {"PATCH": 2, "POST": 5}
