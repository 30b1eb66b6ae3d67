"""Built-in kinds and types, and the types inside of one's own kind.

`controller_gen.json` has a digest of what controller-gen v0.23.0 makes of the same types of k8s.io/api
v0.36.0 (`crd:generateEmbeddedObjectMeta=true,maxDescLen=0`), and the number of places in it.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.api import Resource
from manager_kinds import core_v1
from manager_kinds.apiextensions_v1 import CustomResourceDefinitionSpec, JSONSchemaProps
from manager_kinds.batch_v1 import CronJob, JobTemplateSpec
from manager_kinds.core_v1 import (
    ConfigMap,
    ContainerPort,
    ContainerPortDict,
    EmbeddedPersistentVolumeClaim,
    LocalObjectReference,
    Namespace,
    PodTemplateSpec,
    Secret,
)
from manager_kinds.rbac_v1 import ClusterRole
from manager_tools.codegen.structural import object_schema, structural_schema
from tests.support import ROOT
from tests.support.kinds import Tick, TickSpec

DIGESTS: dict[str, list[Any]] = json.loads(Path(__file__).with_name("controller_gen.json").read_text())

NOT_READ_BY_CONTROLLER_GEN = ("cachingMode", "kind")
"""Fields of a volume's `azureDisk` whose default is the name of a constant: only the API server knows it."""

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "tick"}, "annotations": {"a": "b"}, "name": "x", "finalizers": ["a/b"]},
    "spec": {
        "backoffLimit": 0,
        "suspend": False,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "args": [],
                        "env": [{"name": "EMPTY", "value": ""}],
                        "ports": [{"containerPort": 80, "hostIP": "127.0.0.1"}],
                        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {}},
                        "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
                        "securityContext": {"runAsUser": 0, "seLinuxOptions": {}},
                        "ofTheFuture": {"some": ["thing"]},
                    }
                ],
                "volumes": [
                    {"name": "scratch", "emptyDir": {}},
                    {"name": "claim", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": []}}}},
                ],
                "tolerations": [{"operator": "Exists"}],
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ],
            }
        },
    },
}


def places(node: Any) -> Iterator[dict[str, Any]]:
    """Yield each nested schema of a schema."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from places(each)


def digest(schema: dict[str, Any]) -> list[Any]:
    """Return the number of nested schemas and a digest of the schema."""
    schema = copy.deepcopy(schema)
    for place in places(schema):
        if isinstance(place.get("required"), list):
            place["required"].sort()
        disk = place.get("azureDisk", {}).get("properties", {})
        for name in NOT_READ_BY_CONTROLLER_GEN:
            disk.get(name, {}).pop("default", None)
    text = json.dumps(schema, sort_keys=True)
    return [sum(1 for _ in places(schema)), hashlib.sha256(text.encode()).hexdigest()[:16]]


def field(name: str) -> dict[str, Any]:
    found: dict[str, Any] = structural_schema(Tick)["properties"]["spec"]["properties"][name]
    return found


@pytest.mark.parametrize("name", DIGESTS)
def test_builtin_type_has_the_schema_that_controller_gen_generates(name: str):
    assert digest(field(name)) == DIGESTS[name]


def test_schema_digests_cover_every_field():
    assert set(DIGESTS) == set(structural_schema(Tick)["properties"]["spec"]["properties"])


def test_generated_builtin_models_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts/generate-kinds"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_builtin_model_round_trips_unchanged():
    assert JobTemplateSpec.model_validate(TEMPLATE).to_wire() == TEMPLATE


def test_builtin_model_accepts_python_field_names():
    port = ContainerPort(container_port=80, host_ip="127.0.0.1")
    assert port.to_wire() == {"containerPort": 80, "hostIP": "127.0.0.1"}


def test_server_default_is_in_the_schema_but_not_in_the_object():
    assert object_schema(LocalObjectReference)["properties"]["name"] == {"type": "string", "default": ""}
    assert LocalObjectReference().to_wire() == {}


def test_embedded_metadata_has_the_metadata_fields_of_templates():
    metadata = object_schema(PodTemplateSpec)["properties"]["metadata"]
    names = ["annotations", "finalizers", "labels", "name", "namespace"]
    assert (metadata["type"], list(metadata["properties"])) == ("object", names)


def test_embedded_kind_has_no_default_for_kind_and_api_version():
    claim = object_schema(EmbeddedPersistentVolumeClaim)
    assert claim["properties"]["kind"] == claim["properties"]["apiVersion"] == {"type": "string"}
    assert "required" not in claim


MODULES = sorted(path.stem for path in (ROOT / "manager_kinds").glob("*_v[0-9]*.json"))


def kinds() -> Iterator[type[Resource]]:
    """Every built-in kind."""
    for module in map(importlib.import_module, (f"manager_kinds.{name}" for name in MODULES)):
        for each in (getattr(module, name) for name in dir(module)):
            if isinstance(each, type) and issubclass(each, Resource):
                yield each


def test_builtin_kinds_are_those_that_authors_create():
    found = {str(kind.gvk) for kind in kinds()}
    assert len(found) >= 60
    assert {"Deployment.v1.apps", "HorizontalPodAutoscaler.v2.autoscaling", "Pod.v1"} <= found
    assert {"NetworkPolicy.v1.networking.k8s.io", "PodDisruptionBudget.v1.policy"} <= found


def test_reference_page_lists_every_builtin_kind():
    page = (ROOT / "docs/operator-reference.md").read_text()
    told = re.findall(r"^\| `(\w+_v\d)` \| (.+) \|$", page, re.MULTILINE)
    listed = {(module, name) for module, names in told for name in re.findall(r"`(\w+)`", names)}
    assert listed == {(kind.__module__.removeprefix("manager_kinds."), kind.__name__) for kind in kinds()}


@pytest.mark.parametrize("module", MODULES)
def test_every_builtin_type_has_a_valid_model(module: str):
    found = importlib.import_module(f"manager_kinds.{module}")
    for name in dir(found):
        each = getattr(found, name)
        assert each == dict[str, Any] if name.endswith("Dict") else each.model_rebuild() is not False


def test_builtin_type_is_created_at_its_first_use():
    code = (
        "import sys, manager.cli.run\n"
        "from manager_kinds import core_v1\n"
        "unused = [each for each in sys.modules if each.startswith('manager_kinds.') and '_v' in each]\n"
        "made = lambda: sorted(name for name, each in vars(core_v1).items() if isinstance(each, type))\n"
        "before = made()\n"
        "from manager_kinds.core_v1 import ResourceRequirements\n"
        "print(unused, before, made())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded, before = ["manager_kinds.core_v1"], ["Pod"]  # of `WatchPods`
    assert done.stdout == f"{loaded} {before} {[*before, 'ResourceClaim', 'ResourceRequirements']}\n"


@pytest.mark.parametrize("name", ["PodSpek", "PodSpekDict", "JobSpec", "", "fields"])
def test_types_module_raises_attribute_error_for_an_unknown_name(name: str):
    with pytest.raises(AttributeError, match=rf"'manager_kinds\.core_v1' has no attribute '{name}'"):
        getattr(core_v1, name)


def test_builtin_types_can_be_pickled():
    port = ContainerPort(container_port=80)
    config = ConfigMap(data={"a": "b"})
    assert pickle.loads(pickle.dumps([port, config])) == [port, config]


def test_builtin_kind_keeps_its_spec_and_status_as_json():
    wire = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "@daily", "jobTemplate": TEMPLATE},
        "status": {"active": [], "ofTheFuture": 1},
    }
    job = CronJob.model_validate(wire)
    assert (job.spec, job.status) == (wire["spec"], wire["status"])
    assert job.to_wire() == wire
    assert JobTemplateSpec.of(job.spec["jobTemplate"]).to_wire() == TEMPLATE


def test_builtin_kind_sends_no_unset_field():
    assert ClusterRole().to_wire() == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {},
    }
    assert not ClusterRole.namespaced
    assert not Namespace.namespaced


def test_secret_accepts_missing_values_and_hides_values_in_its_repr():
    secret = Secret.model_validate({"data": {"empty": None, "word": "c2VjcmV0"}, "stringData": {"a": "open"}})
    assert (secret.value("empty"), secret.value("word"), secret.string_data) == (
        None,
        b"secret",
        {"a": "open"},
    )
    assert "c2VjcmV0" not in repr(secret)
    assert "open" not in repr(secret)


def test_json_types_create_plain_dictionaries():
    port = ContainerPortDict(containerPort=80)
    assert port == {"containerPort": 80}
    assert type(port) is dict


def test_recursive_builtin_type_round_trips_unchanged():
    inner = {"not": {"type": "string"}, "x-kubernetes-validations": []}
    schema = {"type": "object", "properties": {"a": inner}}
    read = JSONSchemaProps.model_validate(schema)
    assert read.to_wire() == schema
    assert read.properties is not None
    assert type(read.properties["a"].not_) is JSONSchemaProps
    assert "versions" in CustomResourceDefinitionSpec.model_fields


def test_repr_of_a_builtin_spec_has_python_field_names():
    spec = TickSpec.model_validate({"jobTemplate": TEMPLATE})
    assert spec.job_template is not None
    assert spec.job_template.spec is not None
    assert spec.job_template.spec.template.spec is not None
    assert spec.job_template.spec.template.spec.containers[0].image == "busybox"
