"""The steps of docs/taking-over.md, with objects that another operator has created."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_objects import manifest
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, untyped_definition
from tests.support.eventually import eventually
from tests.support.fork_server import run
from tests.support.manager_process import ManagerProcess
from tests.support.markdown import Page

pytestmark = pytest.mark.contract

KOPF = "kopf.zalando.org/KopfFinalizerMarker"
GO = "webs.example.com/finalizer"
MANAGERS = '"OpenAPI-Generator", "kopf"'


class Old:
    """The objects of another operator in a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, *, finalizer: str, manager: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.finalizer = finalizer
        self.manager = manager
        self.webs = f"/apis/example.com/v1/namespaces/{namespace}/webs"
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def web(self, name: str) -> dict[str, Any]:
        """Create a Web with the annotations and status that kopf writes."""
        annotations = {
            "kopf.zalando.org/last-handled-configuration": '{"spec":{"image":"image:1"}}\n',
            "kopf.zalando.org/create_fn": '{"started":"2026-01-01T00:00:00","success":true}',
            "web.example.com/visits": "7",
            "example.com/note": "of a person",
        }
        body = manifest("example.com/v1", "Web", name, image="image:1")
        body["metadata"] |= {"finalizers": [self.finalizer], "annotations": annotations}
        body["status"] = {"kopf": {"progress": {}}, "create_fn": {"done": True}}
        made: dict[str, Any] = self.plane.api.create(self.webs, body)
        return made

    def child(self, web: dict[str, Any], *, owned: bool = True, labels: dict[str, str] | None = None) -> None:
        """Create the Deployment of a Web, with a field that the new operator does not set."""
        name = web["metadata"]["name"]
        labels = labels or {"web": name}
        owner = {"apiVersion": "example.com/v1", "kind": "Web", "name": name, "uid": web["metadata"]["uid"]}
        owner |= {"controller": True, "blockOwnerDeletion": True}
        container = {"name": "web", "image": "image:1", "env": [{"name": "OLD", "value": "1"}]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        body = manifest("apps/v1", "Deployment", name, **spec)
        body["metadata"]["ownerReferences"] = [owner] if owned else []
        self.plane.api.create(f"{self.deployments}?fieldManager={self.manager}", body)

    def get(self, path: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.api.get(f"{path}/{name}")
        return found

    def is_taken_over(self, name: str) -> bool:
        """Return whether the new operator has set the Web's condition Ready to true."""
        conditions = self.get(self.webs, name).get("status", {}).get("conditions", ())
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


@pytest.mark.parametrize(
    ("finalizer", "managers", "manager"),
    [(KOPF, MANAGERS, "OpenAPI-Generator"), (GO, '"manager",', "manager")],
    ids=["kopf", "controller-runtime"],
)
def test_new_operator_takes_over_objects_of_a_kopf_or_controller_runtime_operator(
    control_plane: ControlPlane,
    namespace: str,
    tmp_path: Path,
    finalizer: str,
    managers: str,
    manager: str,
):
    control_plane.require(Feature.READY_PODS)
    [text] = [each.text for each in Page(Path("docs/taking-over.md")).blocks() if "# web.py" in each.text]
    (tmp_path / "web.py").write_text(text.replace(KOPF, finalizer).replace(MANAGERS, managers))
    program = (sys.executable, str(tmp_path / "web.py"))
    flags = (f"--kubeconfig={control_plane.kubeconfig}", f"--namespaces={namespace}")

    def web(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run(*program, *arguments, environ={"HOME": str(tmp_path)}, timeout=50)

    api = control_plane.api
    api.delete(f"{DEFINITIONS}/webs.example.com")
    eventually(lambda: api.find(f"{DEFINITIONS}/webs.example.com") is None)
    api.create(DEFINITIONS, untyped_definition("example.com", "v1", "Web", "webs"))
    old = Old(control_plane, namespace, finalizer=finalizer, manager=manager)
    eventually(lambda: api.find(old.webs) is not None)
    try:
        old.child(old.web("plain"))
        old.child(old.web("alone"), owned=False)
        old.child(old.web("other"), labels={"app": "other", "by": "old"})
        old.web("going")
        api.delete(f"{old.webs}/going")
        uids = {
            each: old.get(old.deployments, each)["metadata"]["uid"] for each in ("plain", "alone", "other")
        }

        planned = web("plan", "--all", *flags)
        assert planned.returncode == 3, planned.stderr
        assert "-        - name: OLD" in planned.stdout
        assert f"-  - {finalizer}" in planned.stdout
        assert "+  replicas:" not in planned.stdout
        assert "install the definitions first" in planned.stdout
        assert old.get(old.webs, "plain")["metadata"]["finalizers"] == [finalizer]

        definitions = web("crds")
        assert definitions.returncode == 0, definitions.stderr
        control_plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions.stdout
        )
        with ManagerProcess(
            control_plane.kubeconfig, *flags[1:], folder=tmp_path / "m", program=program
        ) as new:
            for name in uids:
                eventually(lambda name=name: old.is_taken_over(name))
            eventually(lambda: api.find(f"{old.webs}/going") is None)
            new.stop()

        for name, uid in uids.items():
            obj, child = old.get(old.webs, name), old.get(old.deployments, name)
            assert "finalizers" not in obj["metadata"]
            assert obj["metadata"]["annotations"] == {"example.com/note": "of a person"}
            assert obj["status"]["visits"] == 7
            assert "kopf" not in obj["status"]
            assert "env" not in child["spec"]["template"]["spec"]["containers"][0]
            assert child["metadata"]["ownerReferences"][0]["uid"] == obj["metadata"]["uid"]
            assert child["spec"]["selector"] == {"matchLabels": {"web": name}}
            assert (child["metadata"]["uid"] == uid) is (name != "other")
            assert child["spec"]["replicas"] == (1 if name == "other" else 3)
            entries = [each for each in child["metadata"]["managedFields"] if "subresource" not in each]
            assert manager not in {each["manager"] for each in entries}
        done = web("plan", "--all", *flags)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    finally:
        for each in api.get(old.webs)["items"]:
            api.patch(f"{old.webs}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
        api.delete(f"{DEFINITIONS}/webs.example.com")
