"""The harness itself: what the other integration tests take for granted about a control plane."""

from __future__ import annotations

import pytest

from tests.conftest import StartControlPlane
from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane, Feature
from tests.support.control_plane_kinds import OLDEST, ControlPlaneKind
from tests.support.daemon import DaemonDied
from tests.support.envtest import BARE

pytestmark = pytest.mark.contract


@pytest.mark.oldest
def test_control_plane_streams_lists_except_in_the_oldest_version(
    control_plane: ControlPlane, control_plane_kind: ControlPlaneKind
):
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    query |= {"allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    path = "/api/v1/namespaces/default/configmaps"
    if control_plane_kind.version == OLDEST:
        with pytest.raises(ApiFailure, match="sendInitialEvents: Forbidden"):
            control_plane.api.request("GET", path, query=query)
    else:
        assert "k8s.io/initial-events-end" in control_plane.api.request("GET", path, query=query)


@pytest.fixture(scope="module")
def own(module_control_plane: StartControlPlane) -> ControlPlane:
    return module_control_plane(parts=BARE, apiserver_flags=["--min-request-timeout=1"])


def test_objects_survive_a_crash_of_the_api_server_and_of_its_database(own: ControlPlane):
    plane = own.require(Feature.PROCESSES)
    path = "/api/v1/namespaces/default/configmaps"
    plane.api.create(path, {"metadata": {"name": "kept"}})
    plane.check()
    plane.kill("apiserver")
    with pytest.raises(DaemonDied, match=r"ended with -9; the end of its log"):
        plane.check()
    with pytest.raises(OSError, match=r"refused|reset|closed|EOF"):
        plane.api.get(f"{path}/kept")
    plane.kill("etcd")
    plane.restart("etcd")
    plane.restart("apiserver")
    assert plane.api.get(f"{path}/kept")["metadata"]["name"] == "kept"
