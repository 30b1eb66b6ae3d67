"""A manager whose CRDs on the server differ from its kinds, at start and while it runs."""

from __future__ import annotations

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess

pytestmark = pytest.mark.contract

MYSRVS = f"{DEFINITIONS}/mysrvs.myapp.idcos.com"
ROOT = "/spec/versions/0"
WITHOUT_STATUS = "the installed definition mysrvs.myapp.idcos.com version v1alpha1 has no status subresource"


def status_of(plane: ControlPlane, api: str, plural: str, name: str) -> dict[str, object]:
    found: dict[str, object] = plane.api.get(f"/apis/{api}/namespaces/default/{plural}/{name}")
    status = found.get("status") or {}
    assert isinstance(status, dict)
    return status


def change(plane: ControlPlane, path: str, *operations: dict[str, object]) -> None:
    """Apply a JSON patch to a CRD."""
    plane.api.request("PATCH", path, body=list(operations), content_type="application/json-patch+json")


def differences(manager: ManagerProcess) -> float:
    name = "operator_manager_definition_differences"
    return manager.metrics().value(name, definition="mysrvs.myapp.idcos.com")


def test_controller_waits_for_its_crd_while_other_controllers_reconcile(
    own_control_plane: StartControlPlane, run_manager: RunManager
):
    plane = own_control_plane(crds=True)
    change(plane, MYSRVS, {"op": "remove", "path": f"{ROOT}/subresources"})
    plane.kubectl("apply", "-n", "default", "-f", "config/samples/myapp_v1alpha1_mysrv.yaml")
    plane.kubectl("apply", "-n", "default", "-f", "config/samples/tutorial_v1_foo.yaml")
    manager = run_manager(plane.kubeconfig, "--controllers=mysrv,foo")
    eventually(lambda: status_of(plane, "tutorial.my.domain/v1", "foos", "foo-01")["colour"])

    def readiness_names_it() -> None:
        status, text = manager.probe("/readyz?verbose")
        assert status == 500
        assert "[-]definitions failed: mysrvs.myapp.idcos.com version v1alpha1 has no status sub" in text
        assert "[-]controller-mysrv failed: waiting for caches: the definition mysrvs.myapp.idcos.com" in text
        assert "[+]controller-foo ok" in text

    eventually(readiness_names_it)
    [line] = manager.logs(msg=WITHOUT_STATUS)
    assert (line["level"], line["effect"]) == ("warn", "the controller waits")
    assert differences(manager) == 1
    assert not status_of(plane, "myapp.idcos.com/v1alpha1", "mysrvs", "mysrv-sample")

    change(plane, MYSRVS, {"op": "add", "path": f"{ROOT}/subresources", "value": {"status": {}}})
    eventually(lambda: status_of(plane, "myapp.idcos.com/v1alpha1", "mysrvs", "mysrv-sample")["status"])
    eventually(lambda: manager.is_ready() or pytest.fail("it is not ready"))
    assert differences(manager) == 0

    # While it runs: a field goes, which prevents nothing; then the subresource, which does.
    field = "/schema/openAPIV3Schema/properties/spec/properties/port"
    required = "/schema/openAPIV3Schema/properties/spec/required"
    change(
        plane,
        MYSRVS,
        {"op": "remove", "path": f"{ROOT}{field}"},
        {"op": "remove", "path": f"{ROOT}{required}"},
    )

    def readiness_has_the_detail() -> None:
        status, text = manager.probe("/readyz?verbose")
        told = "mysrvs.myapp.idcos.com version v1alpha1 has no field .spec.port: the API server drops it"
        assert (status, f"[+]definitions ok: {told}" in text) == (200, True)

    eventually(readiness_has_the_detail)
    change(plane, MYSRVS, {"op": "remove", "path": f"{ROOT}/subresources"})
    eventually(lambda: len(manager.logs(msg=WITHOUT_STATUS)) == 2 or pytest.fail("it is not told again"))
    assert not manager.logs(level="error")
