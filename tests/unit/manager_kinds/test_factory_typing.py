"""Types of built-in kinds, of models and of parts, as mypy reads them in a scaffolded project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.type_checks import run_mypy

SETTINGS = ROOT / "manager_tools/scaffold/project/pyproject.in.toml"

PROGRAM = '''\
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from pydantic import Field

from manager import Context, Operator
from manager.api import (
    READY, ApiModel, Column, Condition, ConditionType, ObjectMeta, Resource, Status, crd, find_condition,
    is_true, preserve_unknown, set_condition,
)
from manager_kinds.apps_v1 import Deployment, DeploymentSpec, StatefulSet
from manager_kinds.autoscaling_v2 import HorizontalPodAutoscaler
from manager_kinds.batch_v1 import CronJob, JobSpec
from manager_kinds.core_v1 import (
    ConfigMap, Container, ContainerDict, EnvVar, Pod, PodSpec, PodSpecDict, PodTemplateSpec, Secret, Service,
)
from manager_kinds.meta_v1 import LabelSelector
from manager_kinds.networking_v1 import NetworkPolicy
from manager_kinds.policy_v1 import PodDisruptionBudget
from manager_kinds.rbac_v1 import PolicyRule, Role, RoleBinding

LABELS = {"app": "web"}
NAMED = ObjectMeta(name="web", namespace="default")


class SiteSpec(ApiModel):
    """What to serve."""

    replicas: int = 1
    template: PodTemplateSpec
    env: list[EnvVar] = Field(default_factory=list)
    raw: Annotated[PodSpecDict, preserve_unknown()] = Field(default_factory=lambda: PodSpecDict())


class SiteStatus(Status, conditions={READY: "all pods are ready"}):
    """What is served."""

    ready: int = 0


@crd()
class Site(Resource, group="example.com", version="v1", plural="sites"):
    """A site."""

    spec: SiteSpec
    status: SiteStatus = Field(default_factory=SiteStatus)


CTX: Context
SITE: Site
NOW: Callable[[], datetime]
'''

RIGHT = """\
MINE = ConditionType("example.com/Mine")


class Sites(Operator[Site]):
    conditions = (READY,)

    async def reconcile(self, site: Site, ctx: Context) -> None:
        ctx.condition(READY, is_true(site.status.conditions, MINE) or MINE in ctx.conditions, "AsWanted")
        ctx.set_conditions(Deployment().conditions_for(1))
        set_condition(site.status.conditions, MINE, "True", "Mine", now=NOW)


COLUMN = Column.reason_of(READY)
TEMPLATE = PodTemplateSpec(spec=PodSpec(containers=[Container(name="web", image_pull_policy="Always")]))
SITE = Site(metadata=NAMED, spec=SiteSpec(replicas=2, template=TEMPLATE, env=[EnvVar(name="A", value="b")]))
CONTAINER: ContainerDict = {
    "name": "web",
    "image": "nginx",
    "ports": [{"containerPort": 80}],
    "env": [each.to_wire() for each in SITE.spec.env],
    "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
    "resources": {"limits": {"cpu": 1, "memory": "64Mi"}},
}
DEPLOYMENTS = [
    Deployment(spec={"replicas": 3, "selector": {"matchLabels": LABELS}}),
    Deployment(metadata=NAMED, spec={"replicas": 3, "template": SITE.spec.template.to_wire()}),
    Deployment(spec=DeploymentSpec(selector=LabelSelector(match_labels=LABELS), template=TEMPLATE).to_wire()),
    Deployment(spec={"template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}}),
]
CHILDREN = [
    ConfigMap(metadata=NAMED, data={"a": "b"}),
    Secret(string_data={"a": "b"}),
    Pod(spec={"containers": [CONTAINER], "restartPolicy": "Never"}),
    Service(spec={"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}),
    NetworkPolicy(spec={"ingress": [{"from": [{"podSelector": {"matchLabels": LABELS}}]}]}),
    PodDisruptionBudget(spec={"minAvailable": "50%", "selector": {"matchLabels": LABELS}}),
    HorizontalPodAutoscaler(
        spec={"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    ),
    CronJob(spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {}}}}}),
    Role(rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    RoleBinding(
        role_ref={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}],
    ),
    StatefulSet(spec={"volumeClaimTemplates": [{"spec": {"accessModes": ["ReadWriteOnce"]}}]}),
]
SITE.spec.raw["restartPolicy"] = "Always"
COUNT: int = DEPLOYMENTS[0].status.get("readyReplicas", 0)
SIZE: int = DEPLOYMENTS[0].spec["replicas"]
SPEC: DeploymentSpec = DeploymentSpec.of(DEPLOYMENTS[0].spec)
MANY: int | None = SPEC.replicas
DEPLOYMENTS[0].spec["replicas"] += 1
JOB = JobSpec(template=TEMPLATE, backoff_limit=0)
RULE = PolicyRule(verbs=["get"], api_groups=[""])
"""

WRONG = """\
Deployment(spec={"replica": 3})  # Extra key "replica"
Deployment(spec={"replicas": 3, "selectr": {"matchLabels": LABELS}})  # Extra key "selectr"
Pod(spec={"containers": [{"name": "web", "imagee": "nginx"}]})  # Extra key "imagee"
Deployment(spec={"template": {"spec": {"containers": [{"name": "a", "env": [{}]}]}}})  # Missing key "name"
NetworkPolicy(spec={"ingress": [{"form": []}]})  # Extra key "form"
ConfigMap(dta={"a": "b"})  # Unexpected keyword argument "dta"
Service(spec={"ports": [{"targetPort": 80}]})  # Missing key "port"
Deployment(spec={"replicas": "3"})  # has type "int"
Container(name="web", imagee="nginx")  # Unexpected keyword argument "imagee"
PodSpec(containers=[Container(name="a", env=[EnvVar(name="A", vale="b")])])  # keyword argument "vale"
EnvVar(value="b")  # Missing named argument "name"
SiteSpec(replcas=3, template=PodTemplateSpec())  # Unexpected keyword argument "replcas"
SiteStatus(redy=3)  # Unexpected keyword argument "redy"
Condition(type="Ready", status="True", reason="AsWanted", mesage="fine")  # keyword argument "mesage"
Condition(type="Ready", status="true", reason="AsWanted")  # has incompatible type "Literal['true']"
CTX.condition("Redy", True, "AsWanted")  # expected "ConditionType"
CTX.condition(REDY, True, "AsWanted")  # Name "REDY" is not defined
CTX.set_conditions([("Redy", True, "AsWanted", "")])  # expected "tuple[ConditionType, bool, str, str]"
CTX.conditions["Redy"]  # expected type "ConditionType"
find_condition(SITE.status.conditions, "Redy")  # expected "ConditionType"
is_true(SITE.status.conditions, "Redy")  # expected "ConditionType"
set_condition([], "Redy", "True", "AsWanted", now=NOW)  # expected "ConditionType"
Column.reason_of("Redy")  # expected "ConditionType"
class Sites(Operator[Site]): conditions = ("Redy",)  # Incompatible types in assignment
ObjectMeta(nme="web")  # Unexpected keyword argument "nme"
Deployment().status["readyReplica"]  # has no key "readyReplica"
Deployment().spec["replica"] = 3  # has no key "replica"
Pod(spec=DeploymentSpec.of({}).to_wire())  # incompatible type "DeploymentSpecDict"
"""
"""Lines with one error each, of which the comment is a part."""


@pytest.mark.timeout(240)
def test_mypy_reports_each_misspelt_field_and_accepts_correct_code(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text(SETTINGS.read_text())
    wrong, right = tmp_path / "wrong.py", tmp_path / "right.py"
    wrong.write_text(PROGRAM + WRONG)
    right.write_text(PROGRAM + RIGHT)
    options = [f"--config-file={tmp_path / 'pyproject.toml'}", f"--cache-dir={tmp_path / 'cache'}"]
    said = run_mypy(*options, str(wrong), str(right))
    assert [line for line in said.splitlines() if "right.py" in line] == []
    errors = {int(at): text for at, text in re.findall(r"wrong\.py:(\d+): error: (.*)", said)[::-1]}
    lines = dict(enumerate(WRONG.splitlines(), PROGRAM.count("\n") + 1))
    assert errors.keys() == lines.keys()
    assert [line for at, line in lines.items() if line.partition("  # ")[2] not in errors[at]] == []


def test_mypy_settings_of_repository_and_scaffold_forbid_unknown_model_fields():
    settings = [tomllib.loads(path.read_text())["tool"] for path in (SETTINGS, ROOT / "pyproject.toml")]
    assert all(each["pydantic-mypy"]["init_forbid_extra"] for each in settings)
    assert all("pydantic.mypy" in each["mypy"]["plugins"] for each in settings)
