"""Differences between a kind's model and its installed CRD, at the manager's start and after a CRD change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import object_path
from tests.support.crds import DEFINITIONS
from tests.support.eventually import eventually

MYSRVS = "mysrvs.myapp.idcos.com"
WITHOUT_STATUS = f"{MYSRVS} version v1alpha1 has no status subresource"
FIELDS = "schema/openAPIV3Schema/properties/spec"


@pytest.mark.contract
def test_controller_waits_for_the_status_subresource_of_its_crd_while_another_controller_reconciles(
    own_control_plane: StartControlPlane, run_manager: RunManager
):
    plane = own_control_plane(crds=True)

    def change(operation: str, path: str, **value: Any) -> None:
        body = [{"op": operation, "path": f"/spec/versions/0/{path}", **value}]
        plane.api.request(
            "PATCH", f"{DEFINITIONS}/{MYSRVS}", body=body, content_type="application/json-patch+json"
        )

    def has_status(api: str, plural: str, name: str) -> bool:
        return "status" in plane.api.get(object_path(api, "default", plural, name))

    def readiness_says(status: int, *lines: str) -> None:
        seen, text = manager.probe("/readyz?verbose")
        assert (seen, [line for line in lines if line not in text]) == (status, [])

    mysrv = ("myapp.idcos.com/v1alpha1", "mysrvs", "mysrv-sample")
    change("remove", "subresources")
    samples = [f"-fconfig/samples/{name}.yaml" for name in ("myapp_v1alpha1_mysrv", "tutorial_v1_foo")]
    plane.kubectl("apply", "--namespace=default", *samples)
    manager = run_manager(plane.kubeconfig, "--controllers=mysrv,foo")
    eventually(lambda: has_status("tutorial.my.domain/v1", "foos", "foo-01"))
    failed = f"[-]definitions failed: {WITHOUT_STATUS}"
    waits = f"[-]controller-mysrv failed: waiting for caches: the definition {WITHOUT_STATUS}"
    eventually(lambda: readiness_says(500, failed, waits, "[+]controller-foo ok"))
    [line] = manager.logs(msg="the cluster's CRD does not match the program")
    assert f"{line['definition']} {line['difference']}" == WITHOUT_STATUS
    assert (line["level"], line["effect"]) == ("warn", "the controller waits")
    differences = "operator_manager_definition_differences"
    assert manager.metrics().value(differences, definition=MYSRVS) == 1
    assert not has_status(*mysrv)

    # A real API server drops the connection of a request for the subresource that comes too early.
    manager.process.freeze()
    change("add", "subresources", value={"status": {}})
    api, plural, name = mysrv
    eventually(lambda: plane.api.get(f"{object_path(api, 'default', plural, name)}/status"))
    manager.process.thaw()
    eventually(lambda: has_status(*mysrv))
    eventually(lambda: readiness_says(200, "[+]definitions ok"))
    assert manager.metrics().value(differences, definition=MYSRVS) == 0

    # A missing field is a difference that stops no reconcile.
    change("remove", f"{FIELDS}/required")
    change("remove", f"{FIELDS}/properties/port")
    told = f"{MYSRVS} version v1alpha1 has no field .spec.port: the API server drops it"
    eventually(lambda: readiness_says(200, f"[+]definitions ok: {told}"))
    assert manager.logs(level="error") == []
