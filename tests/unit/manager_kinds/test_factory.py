"""Built-in kinds and types, also as the types of fields of a custom kind.

`controller_gen.json` describes each schema that controller-gen v0.23.0 generates from k8s.io/api v0.36.0
(`crd:generateEmbeddedObjectMeta=true,maxDescLen=0`) by its number of JSON objects and a digest.
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
from pydantic import ValidationError

from manager.api import Resource
from manager_kinds import core_v1
from manager_kinds.apiextensions_v1 import CustomResourceDefinitionSpec, JSONSchemaProps
from manager_kinds.batch_v1 import CronJob, JobTemplateSpec
from manager_kinds.core_v1 import (
    ConfigMap,
    ContainerPort,
    LocalObjectReference,
    Namespace,
    Secret,
)
from manager_kinds.rbac_v1 import ClusterRole
from manager_tools.codegen.structural import structural_schema
from tests.support import ROOT
from tests.support.kinds import Tick

DIGESTS: dict[str, list[Any]] = json.loads(Path(__file__).with_name("controller_gen.json").read_text())

NOT_READ_BY_CONTROLLER_GEN = ("cachingMode", "kind")
"""Fields of a volume's `azureDisk` whose default is a Go constant that controller-gen does not read."""

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
                        "securityContext": {"runAsUser": 0, "seLinuxOptions": {}},
                        "ofTheFuture": {"some": ["thing"]},
                    }
                ],
                "volumes": [{"name": "claim", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
            }
        },
    },
}


def places(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and each JSON object inside of it."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from places(each)


def digest(schema: dict[str, Any]) -> list[Any]:
    """Return the number of JSON objects in the schema, and a digest of the schema."""
    schema = copy.deepcopy(schema)
    for place in places(schema):
        if isinstance(place.get("required"), list):
            place["required"].sort()
        disk = place.get("azureDisk", {}).get("properties", {})
        for name in NOT_READ_BY_CONTROLLER_GEN:
            disk.get(name, {}).pop("default", None)
    text = json.dumps(schema, sort_keys=True)
    return [sum(1 for _ in places(schema)), hashlib.sha256(text.encode()).hexdigest()[:16]]


def test_builtin_types_have_the_schemas_that_controller_gen_generates():
    fields = structural_schema(Tick)["properties"]["spec"]["properties"]
    assert {name: digest(schema) for name, schema in fields.items()} == DIGESTS


def test_generated_builtin_models_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts/generate-kinds"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_builtin_model_round_trips_unchanged_and_accepts_python_field_names():
    spec = JobTemplateSpec.model_validate(TEMPLATE)
    assert spec.to_wire() == TEMPLATE
    port = ContainerPort(container_port=80, host_ip="127.0.0.1")
    assert port.to_wire() == {"containerPort": 80, "hostIP": "127.0.0.1"}
    assert LocalObjectReference().to_wire() == {}, "the server's default of the name"


MODULES = sorted(path.stem for path in (ROOT / "manager_kinds").glob("*_v[0-9]*.json"))


def kinds() -> Iterator[type[Resource]]:
    """Yield every built-in kind."""
    for module in map(importlib.import_module, (f"manager_kinds.{name}" for name in MODULES)):
        for each in (getattr(module, name) for name in dir(module)):
            if isinstance(each, type) and issubclass(each, Resource):
                yield each


def test_reference_page_lists_every_builtin_kind():
    page = (ROOT / "docs/operator-reference.md").read_text()
    told = re.findall(r"^\| `(\w+_v\d)` \| (.+) \|$", page, re.MULTILINE)
    listed = {(module, name) for module, names in told for name in re.findall(r"`(\w+)`", names)}
    assert listed == {(kind.__module__.removeprefix("manager_kinds."), kind.__name__) for kind in kinds()}


@pytest.mark.parametrize("module", MODULES)
def test_builtin_types_of_a_module_are_all_valid_pydantic_models(module: str):
    found = importlib.import_module(f"manager_kinds.{module}")
    for name in dir(found):
        each = getattr(found, name)
        assert each == dict[str, Any] if name.endswith("Dict") else each.model_rebuild() is not False


def test_builtin_type_is_created_when_it_is_first_imported():
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
    loaded, before = ["manager_kinds.core_v1"], ["Pod"]  # `WatchPods` uses Pod
    assert done.stdout == f"{loaded} {before} {[*before, 'ResourceClaim', 'ResourceRequirements']}\n"


@pytest.mark.parametrize("name", ["PodSpek", "PodSpekDict", "JobSpec", "", "fields"])
def test_types_module_raises_attribute_error_for_an_unknown_name(name: str):
    with pytest.raises(AttributeError, match=rf"'manager_kinds\.core_v1' has no attribute '{name}'"):
        getattr(core_v1, name)


def test_builtin_types_can_be_pickled():
    objects = [ContainerPort(container_port=80), ConfigMap(data={"a": "b"})]
    assert pickle.loads(pickle.dumps(objects)) == objects


def test_builtin_kind_keeps_spec_and_status_as_plain_dictionaries():
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


def test_builtin_kind_serializes_only_fields_that_are_set():
    group = "rbac.authorization.k8s.io/v1"
    assert ClusterRole().to_wire() == {"apiVersion": group, "kind": "ClusterRole", "metadata": {}}
    assert not ClusterRole.namespaced
    assert not Namespace.namespaced


def test_secret_accepts_null_values_and_hides_values_in_repr_and_errors():
    data = {"empty": None, "word": "c2VjcmV0"}
    secret = Secret.model_validate({"data": data, "stringData": {"a": "open"}})
    values = [secret.value(name) for name in ("empty", "word", "missing")]
    assert (values, secret.string_data) == ([None, b"secret", None], {"a": "open"})
    assert not {"c2VjcmV0", "open"} & set(re.findall(r"\w+", repr(secret)))
    with pytest.raises(ValidationError) as error:
        Secret.decode(b'{"metadata": {"name": "s"}, "data": "c2VjcmV0"}')
    assert "c2VjcmV0" not in str(error.value)


def test_recursive_builtin_type_round_trips_unchanged():
    inner = {"not": {"type": "string"}, "x-kubernetes-validations": []}
    schema = {"type": "object", "properties": {"a": inner}}
    read = JSONSchemaProps.model_validate(schema)
    assert read.to_wire() == schema
    assert read.properties is not None
    assert type(read.properties["a"].not_) is JSONSchemaProps
    assert "versions" in CustomResourceDefinitionSpec.model_fields
