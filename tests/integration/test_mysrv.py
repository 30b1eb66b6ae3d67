"""The MySrv operator, walked through as a person with kubectl would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_objects import condition, event_counts, manifest, object_path
from tests.support.eventually import consistently, eventually
from tests.support.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RunManager
    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract

SAMPLE = "config/samples/myapp_v1alpha1_mysrv.yaml"
API = "myapp.idcos.com/v1alpha1"


class MySrvWalk(Walk):
    """What is seen of MySrvs."""

    def mysrv(self, name: str = "mysrv-sample") -> dict[str, Any]:
        return self.get(API, "mysrvs", name)

    def create(self, metadata_name: str, **spec: Any) -> None:
        self.plane.api.create(object_path(API, self.namespace, "mysrvs"), mysrv(metadata_name, **spec))

    def is_available(self, name: str = "mysrv-sample") -> None:
        found = self.mysrv(name)
        assert found["status"]["status"] == "Available"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert condition(found, "Ready")["status"] == "True"


def mysrv(metadata_name: str, **spec: Any) -> dict[str, Any]:
    """A MySrv, as a user would write it; what is not said is as in the sample."""
    return manifest(API, "MySrv", metadata_name, **{"name": "CloudCMP", "port": 80, **spec})


@pytest.fixture
def walk(crds: ControlPlane, namespace: str, run_manager: RunManager) -> Iterator[MySrvWalk]:
    manager = run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=mysrv")
    walk = MySrvWalk(crds, namespace, manager.wait_ready())
    yield walk
    assert not walk.errors()


@pytest.mark.oldest
@pytest.mark.smoke
def test_the_worked_example(walk: MySrvWalk) -> None:
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


def test_everything_within_bounds_works(walk: MySrvWalk) -> None:
    within = {
        "lowest": {"port": 1},
        "highest": {"port": 65535},
        "shortest": {"name": "C"},
        "faces": {"name": "\N{GRINNING FACE}" * 63},
        "lines": {"name": "Cloud\nCMP\0\x1b[31m"},
        "m" * 253: {"name": "C" * 63},
    }
    for name, spec in within.items():
        walk.create(name, **spec)
    for name in within:
        eventually(lambda name=name: walk.is_available(name))
        eventually(lambda name=name: event_counts(walk.plane, walk.mysrv(name)) == {"SpecTakenUp": 1})
    walk.kubectl("get", "mysrvs")
