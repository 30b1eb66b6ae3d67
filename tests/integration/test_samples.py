"""The Foo, Memcached and MySrv operators, used through kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, deployment_path, event_counts, pod_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import consistently, eventually
from tests.support.walk import Walk, walking

pytestmark = pytest.mark.oldest

OBJECTS = {
    "foo": ("tutorial.my.domain/v1", "foos", "config/samples/tutorial_v1_foo.yaml"),
    "memcached": ("cache.example.com/v1", "memcacheds", "config/samples/cache_v1_memcached.yaml"),
    "mysrv": ("myapp.idcos.com/v1alpha1", "mysrvs", "config/samples/myapp_v1alpha1_mysrv.yaml"),
}


class SampleWalk(Walk):
    """Namespace with the sample objects of one operator, kubectl, and a manager."""

    controller: str

    def apply_sample(self) -> None:
        self.kubectl("apply", "-f", OBJECTS[self.controller][2])

    def find(self, name: str) -> dict[str, Any]:
        api, plural, _ = OBJECTS[self.controller]
        return self.get(api, plural, name)

    def have_been_reconciled(self, times: int) -> None:
        assert self.reconciles(self.controller) == times

    def columns(self) -> list[list[str]]:
        """Return the columns of each line of `kubectl get`, except the age."""
        return [line.split()[:-1] for line in self.kubectl("get", OBJECTS[self.controller][1]).splitlines()]


@pytest.fixture
def walk(
    request: pytest.FixtureRequest, crds: ControlPlane, namespace: str, run_manager: RunManager
) -> Iterator[SampleWalk]:
    """Run the operator in the test's parameter; yield the namespace that its manager watches."""
    flags = (f"--namespaces={namespace}", f"--controllers={request.param}")
    with walking(SampleWalk, crds, namespace, run_manager(crds.kubeconfig, *flags)) as walk:
        walk.controller = request.param
        yield walk


@pytest.mark.smoke
@pytest.mark.parametrize("walk", ["foo"], indirect=True)
def test_foo_is_reconciled_once_when_the_pod_named_in_its_spec_is_created_or_deleted(walk: SampleWalk):
    def are_happy(**expected: bool) -> None:
        """Assert that the status of each Foo is current and `happy` has the expected value."""
        for name, happy in expected.items():
            found = walk.find(name.replace("_", "-"))
            status = found["status"]
            assert status["happy"] is happy, name
            assert status["observedGeneration"] == found["metadata"]["generation"], name
            assert condition(found, "Happy")["status"] == str(happy), name

    walk.apply_sample()
    eventually(lambda: are_happy(foo_01=False, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(2))
    assert condition(walk.find("foo-01"), "Happy")["reason"] == "FriendMissing"

    walk.kubectl("run", "jack", "--image=nginx")
    walk.kubectl("wait", "--for=condition=Happy", "--timeout=90s", "foo/foo-01")
    eventually(lambda: are_happy(foo_01=True, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(3))

    rename = '{"spec":{"name":"jack"}}'
    walk.kubectl("patch", "foo", "foo-02", "--type=merge", "-p", rename)
    eventually(lambda: are_happy(foo_01=True, foo_02=True))
    eventually(lambda: walk.have_been_reconciled(4))

    # Labels and annotations of the pod or of a Foo, and other pods, cause no reconcile.
    walk.kubectl("label", "pod/jack", "foo/foo-01", "seen=yes")
    walk.kubectl("annotate", "pod/jack", "foo/foo-02", "seen=yes")
    walk.kubectl("run", "stranger", "--image=nginx")

    colours = [walk.find(name)["status"]["colour"] for name in ("foo-01", "foo-02")]
    assert walk.columns() == [
        ["NAME", "FRIEND", "HAPPY", "COLOUR"],
        ["foo-01", "jack", "true", colours[0]],
        ["foo-02", "jack", "true", colours[1]],
    ]

    # One event causes a reconcile of each of two Foos. The pod's deletion later causes none.
    walk.kubectl("delete", "pod", "jack", "--wait=true")
    eventually(lambda: are_happy(foo_01=False, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(6))
    assert condition(walk.find("foo-01"), "Happy")["message"] == "There is no pod named jack"
    consistently(lambda: walk.have_been_reconciled(6), during=1)

    def each_change_has_one_event() -> None:
        for name in ("foo-01", "foo-02"):
            told = event_counts(walk.plane, walk.find(name))
            assert told == {"Waiting": 1, "BecameHappy": 1, "BecameUnhappy": 1}

    eventually(each_change_has_one_event)
    described = walk.kubectl("describe", "foo", "foo-01")
    assert f"Pod jack is there, in namespace {walk.namespace}" in described
    assert "spec.name" not in described
    assert "-required-" in walk.kubectl("explain", "foo.spec")
    # Each reconcile has written once.
    written = walk.manager.metrics().value("rest_client_requests_total", method="PATCH", code="200")
    assert written == 6


@pytest.mark.smoke
@pytest.mark.parametrize("walk", ["memcached"], indirect=True)
def test_memcached_operator_creates_scales_and_deletes_a_deployment_for_its_sample(walk: SampleWalk):
    walk.plane.require(Feature.WORKLOADS, Feature.READY_PODS)
    name = "memcached-sample"

    def has_ready_nodes(count: int) -> None:
        """Assert that `status.nodes` has exactly the names of the ready pods."""
        status = walk.find(name)["status"]
        pods = walk.plane.api.get(pod_path(walk.namespace), labelSelector=f"memcached_cr={name}")["items"]
        running = sorted(
            pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        )
        assert len(running) == count
        assert status["nodes"] == running
        assert status["readyReplicas"] == status["replicas"] == count

    walk.apply_sample()
    eventually(lambda: has_ready_nodes(3))
    assert condition(walk.find(name), "Available")["status"] == "True"
    eventually(lambda: condition(walk.find(name), "Progressing")["status"] == "False")
    assert condition(walk.find(name), "Degraded")["status"] == "False"
    assert walk.columns() == [["NAME", "SIZE", "READY"], [name, "3", "3"]]

    def describes() -> None:
        described = walk.kubectl("describe", "memcached", name)
        words = (f"Created Deployment {name}", "operator-manager", "Available", "Progressing")
        assert all(word in described for word in (*words, "Degraded"))

    eventually(describes)

    walk.kubectl("patch", "memcached", name, "--type=merge", "-p", '{"spec":{"size":5}}')
    eventually(lambda: has_ready_nodes(5))
    for size in (2, 0):
        walk.kubectl("scale", f"memcached/{name}", f"--replicas={size}")
        eventually(lambda size=size: has_ready_nodes(size))

    walk.kubectl("delete", "-f", OBJECTS["memcached"][2], "--wait=true")
    eventually(lambda: walk.plane.api.find(deployment_path(walk.namespace, name)) is None)


@pytest.mark.smoke
@pytest.mark.parametrize("walk", ["mysrv"], indirect=True)
def test_mysrv_operator_reconciles_once_for_each_spec_change_and_not_for_a_label(walk: SampleWalk):
    name = "mysrv-sample"

    def is_available() -> None:
        found = walk.find(name)
        assert found["status"]["status"] == "Available"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert condition(found, "Ready")["status"] == "True"

    walk.apply_sample()
    walk.kubectl("wait", "--for=condition=Ready", "--timeout=90s", f"mysrv/{name}")
    is_available()
    assert walk.columns() == [["NAME", "NAME", "PORT", "STATUS"], [name, "CloudCMP", "80", "Available"]]
    assert "The port that the service listens on" in walk.kubectl("explain", "mysrv.spec")

    walk.kubectl("patch", "mysrv", name, "--type=merge", "-p", '{"spec":{"port":443}}')
    eventually(is_available)
    assert "port 443" in condition(walk.find(name), "Ready")["message"]
    walk.kubectl("label", f"mysrv/{name}", "seen=yes")
    settled = walk.find(name)["metadata"]["resourceVersion"]
    consistently(lambda: walk.find(name)["metadata"]["resourceVersion"] == settled, during=1)
    eventually(lambda: sum(event_counts(walk.plane, walk.find(name)).values()) == 2)
    walk.have_been_reconciled(2)
