"""mypy checks of built-in kinds, models and embedded types in a scaffolded project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.type_checks import run_mypy

SETTINGS = ROOT / "manager_tools/scaffold/project/pyproject.in.toml"

PROGRAM = '''\
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pydantic import Field

from manager import Context, Operator
from manager.api import (
    READY, ApiModel, Column, Condition, ConditionType, ObjectMeta, Resource, Status, crd, find_condition,
    is_true, set_condition,
)
from manager_kinds.apps_v1 import Deployment, DeploymentSpec, StatefulSet
from manager_kinds.core_v1 import (
    ConfigMap, Container, ContainerDict, EnvVar, Pod, PodSpec, PodTemplateSpec, Service,
)
from manager_kinds.meta_v1 import LabelSelector
from manager_kinds.rbac_v1 import RoleBinding

LABELS = {"app": "web"}
NAMED = ObjectMeta(name="web", namespace="default")


class SiteSpec(ApiModel):
    """What to serve."""

    replicas: int = 1
    template: PodTemplateSpec
    env: list[EnvVar] = Field(default_factory=list)


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
    Deployment(spec=DeploymentSpec(selector=LabelSelector(match_labels=LABELS), template=TEMPLATE).to_wire()),
    Deployment(spec={"template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}}),
]
CHILDREN = [
    ConfigMap(metadata=NAMED, data={"a": "b"}),
    Pod(spec={"containers": [CONTAINER], "restartPolicy": "Never"}),
    Service(spec={"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}),
    RoleBinding(
        role_ref={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}],
    ),
    StatefulSet(spec={"volumeClaimTemplates": [{"spec": {"accessModes": ["ReadWriteOnce"]}}]}),
]
SPEC: DeploymentSpec = DeploymentSpec.of(DEPLOYMENTS[0].spec)
MANY: int | None = SPEC.replicas
DEPLOYMENTS[0].spec["replicas"] += 1
"""

WRONG = """\
Deployment(spec={"replica": 3})  # Extra key "replica"
Deployment(spec={"template": {"spec": {"containers": [{"name": "a", "env": [{}]}]}}})  # Missing key "name"
ConfigMap(dta={"a": "b"})  # Unexpected keyword argument "dta"
Deployment(spec={"replicas": "3"})  # has type "int"
Container(name="web", imagee="nginx")  # Unexpected keyword argument "imagee"
EnvVar(value="b")  # Missing named argument "name"
SiteSpec(replcas=3, template=PodTemplateSpec())  # Unexpected keyword argument "replcas"
Condition(type="Ready", status="True", reason="AsWanted", mesage="fine")  # keyword argument "mesage"
Condition(type="Ready", status="true", reason="AsWanted")  # has incompatible type "Literal['true']"
CTX.condition("Redy", True, "AsWanted")  # expected "ConditionType"
CTX.condition(REDY, True, "AsWanted")  # Name "REDY" is not defined
CTX.set_conditions([("Redy", True, "AsWanted", "")])  # expected "tuple[ConditionType, bool, str, str]"
find_condition(SITE.status.conditions, "Redy")  # expected "ConditionType"
set_condition([], "Redy", "True", "AsWanted", now=NOW)  # expected "ConditionType"
class Sites(Operator[Site]): conditions = ("Redy",)  # Incompatible types in assignment
Deployment().status["readyReplica"]  # has no key "readyReplica"
Pod(spec=DeploymentSpec.of({}).to_wire())  # incompatible type "DeploymentSpecDict"
"""
"""Lines with one error each; the comment quotes a part of mypy's message."""


@pytest.mark.timeout(240)
def test_mypy_reports_each_invalid_field_or_type_and_accepts_correct_code(tmp_path: Path):
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
