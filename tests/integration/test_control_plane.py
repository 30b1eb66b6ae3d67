"""The harness itself: what the other integration tests take for granted about a control plane."""

from __future__ import annotations

import pytest

from tests.conftest import StartControlPlane
from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import DaemonDied
from tests.support.envtest import BARE

pytestmark = pytest.mark.contract


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
