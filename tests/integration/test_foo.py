"""The Foo operator, exercised with kubectl as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition, event_counts
from tests.support.control_plane import ControlPlane
from tests.support.eventually import consistently, eventually
from tests.support.foos import API
from tests.support.walk import Walk, walking

SAMPLE = "config/samples/tutorial_v1_foo.yaml"


class FooWalk(Walk):
    """Walk through Foos in one namespace."""

    def foo(self, name: str = "foo-01") -> dict[str, Any]:
        return self.get(API, "foos", name)

    def are_happy(self, **expected: bool) -> None:
        """Assert that the status of these Foos is current and has the expected `happy`."""
        for name, happy in expected.items():
            found = self.foo(name.replace("_", "-"))
            status = found["status"]
            assert status["happy"] is happy, name
            assert status["observedGeneration"] == found["metadata"]["generation"], name
            assert condition(found, "Happy")["status"] == str(happy), name

    def have_been_reconciled(self, times: int) -> None:
        assert self.reconciles("foo") == times


@pytest.fixture
def walk(crds: ControlPlane, namespace: str, run_manager: RunManager) -> Iterator[FooWalk]:
    manager = run_manager(crds.kubeconfig, f"--namespaces={namespace}", "--controllers=foo")
    with walking(FooWalk, crds, namespace, manager) as walk:
        yield walk


@pytest.mark.oldest
@pytest.mark.smoke
def test_foo_sample_is_reconciled_once_per_event(walk: FooWalk):
    walk.kubectl("apply", "-f", SAMPLE)
    eventually(lambda: walk.are_happy(foo_01=False, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(2))
    assert condition(walk.foo(), "Happy")["reason"] == "FriendMissing"

    walk.kubectl("run", "jack", "--image=nginx")
    walk.kubectl("wait", "--for=condition=Happy", "--timeout=90s", "foo/foo-01")
    eventually(lambda: walk.are_happy(foo_01=True, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(3))

    rename = '{"spec":{"name":"jack"}}'
    walk.kubectl("patch", "foo", "foo-02", "--type=merge", "-p", rename)
    eventually(lambda: walk.are_happy(foo_01=True, foo_02=True))
    eventually(lambda: walk.have_been_reconciled(4))

    # Neither what happens to the pod in between, nor what is hung on it or on a Foo, asks for anything.
    walk.kubectl("label", "pod/jack", "foo/foo-01", "seen=yes")
    walk.kubectl("annotate", "pod/jack", "foo/foo-02", "seen=yes")
    walk.kubectl("run", "stranger", "--image=nginx")

    header, *rows = walk.kubectl("get", "foos").splitlines()
    assert header.split() == ["NAME", "FRIEND", "HAPPY", "COLOUR", "AGE"]
    colours = [walk.foo(name)["status"]["colour"] for name in ("foo-01", "foo-02")]
    assert [row.split()[:4] for row in rows] == [
        ["foo-01", "jack", "true", colours[0]],
        ["foo-02", "jack", "true", colours[1]],
    ]

    # One event, two Foos: a reconcile for each. The pod's deletion a moment later causes no reconcile.
    walk.kubectl("delete", "pod", "jack", "--wait=true")
    eventually(lambda: walk.are_happy(foo_01=False, foo_02=False))
    eventually(lambda: walk.have_been_reconciled(6))
    assert condition(walk.foo(), "Happy")["message"] == "There is no pod named jack"
    consistently(lambda: walk.have_been_reconciled(6), during=1)

    def each_turn_was_told_once() -> None:
        for name in ("foo-01", "foo-02"):
            told = event_counts(walk.plane, walk.foo(name))
            assert told == {"Waiting": 1, "BecameHappy": 1, "BecameUnhappy": 1}

    eventually(each_turn_was_told_once)
    described = walk.kubectl("describe", "foo", "foo-01")
    assert f"Pod jack is there, in namespace {walk.namespace}" in described
    assert "spec.name" not in described
    assert "-required-" in walk.kubectl("explain", "foo.spec")
    # The six reconciles, but for what found nothing new, were a write each.
    written = walk.manager.metrics().value("rest_client_requests_total", method="PATCH", code="200")
    assert written == 6
