"""Built-in kinds of `manager_kinds`, compared with the API servers of the control planes."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from manager.api import Resource
from manager_kinds.apps_v1 import Deployment
from manager_kinds.autoscaling_v2 import HorizontalPodAutoscaler
from manager_kinds.batch_v1 import CronJob
from manager_kinds.core_v1 import ConfigMap, PodTemplateSpec, Secret, Service, ServiceAccount
from manager_kinds.meta_v1 import LabelSelector
from manager_kinds.networking_v1 import Ingress, NetworkPolicy
from manager_kinds.policy_v1 import PodDisruptionBudget
from manager_kinds.rbac_v1 import PolicyRule, Role, RoleBinding
from tests.support import ROOT
from tests.support.control_plane import ControlPlane
from tests.support.control_plane_kinds import ControlPlaneKind

pytestmark = pytest.mark.contract

LABELS = {"app": "web"}
CONTAINER = {"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}
CONTAINER |= {"env": [{"name": "A", "value": "b"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], "restartPolicy": "Always"}}
JOB = {"spec": {"containers": [{"name": "job", "image": "busybox"}], "restartPolicy": "Never"}}


def pods(template: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template after a round trip through its model."""
    return PodTemplateSpec.model_validate(template).to_wire()


def builtin_kinds() -> list[type[Resource]]:
    modules = [
        importlib.import_module(f"manager_kinds.{path.stem}")
        for path in sorted((ROOT / "manager_kinds").glob("*_v[0-9]*.json"))
    ]
    found = [getattr(module, name) for module in modules for name in dir(module)]
    return [each for each in found if isinstance(each, type) and issubclass(each, Resource)]


def root_of(kind: type[Resource]) -> str:
    return f"/apis/{kind.gvk.api_version}" if kind.gvk.group else f"/api/{kind.gvk.api_version}"


def test_builtin_kinds_have_the_names_and_scopes_that_discovery_reports(
    control_plane: ControlPlane, control_plane_kind: ControlPlaneKind
):
    differing: dict[str, Any] = {}
    missing: list[str] = []
    for kind in builtin_kinds():
        served = control_plane.api.find(f"{root_of(kind)}") or {}
        resources = [each for each in served.get("resources", ()) if "/" not in each["name"]]
        [found] = [each for each in resources if each["kind"] == kind.gvk.kind] or [None]
        if found is None:
            missing.append(str(kind.gvk))
        elif (found["name"], found["namespaced"]) != (kind.plural, kind.namespaced):
            differing[str(kind.gvk)] = found["name"], found["namespaced"]
    assert differing == {}
    if control_plane_kind.name != "devcluster":
        assert missing == []


CHILDREN: list[Resource] = [
    ConfigMap(data={"a": "b"}),
    Secret(string_data={"a": "b"}),
    ServiceAccount(automount_service_account_token=False),
    Deployment(
        spec={
            "replicas": 2,
            "selector": LabelSelector(match_labels=LABELS).to_wire(),
            "template": pods(TEMPLATE),
        }
    ),
    CronJob(spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": pods(JOB)}}}),
    Service(spec={"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}),
    Ingress(spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}),
    NetworkPolicy(
        spec={"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": LABELS}}]}]}
    ),
    PodDisruptionBudget(spec={"minAvailable": "50%", "selector": {"matchLabels": LABELS}}),
    HorizontalPodAutoscaler(
        spec={
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        }
    ),
    Role(rules=[PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"]).to_wire()]),
    RoleBinding(
        role_ref={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
        subjects=[{"kind": "ServiceAccount", "name": "web", "namespace": "default"}],
    ),
]


@pytest.mark.parametrize("child", CHILDREN, ids=lambda child: type(child).__name__)
def test_builtin_kind_loses_no_field_that_was_sent_or_that_the_api_server_returned(
    control_plane: ControlPlane, namespace: str, child: Resource
):
    wire = {**child.to_wire(), "metadata": {"name": "web", "namespace": namespace}}
    wire.pop("status", None)
    path = f"{root_of(type(child))}/namespaces/{namespace}/{child.plural}"
    query = {"fieldValidation": "Strict"}
    stored = json.loads(control_plane.api.request("POST", path, body=wire, query=query))
    read = type(child).model_validate(stored)
    assert {**read.to_wire(), "metadata": None} == {**stored, "metadata": None, **empty(read)}
    assert covers(stored, {name: value for name, value in wire.items() if name != "stringData"})


def empty(read: Resource) -> dict[str, Any]:
    """Return the empty status that a model adds when the server stores no status."""
    return {"status": {}} if getattr(read, "status", None) == {} else {}


def covers(stored: Any, wanted: Any) -> bool:
    """Return whether `stored` contains every value of `wanted`; the server may have added defaults."""
    if isinstance(wanted, dict):
        return all(name in stored and covers(stored[name], value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(covers, stored, wanted))
    return bool(stored == wanted)
