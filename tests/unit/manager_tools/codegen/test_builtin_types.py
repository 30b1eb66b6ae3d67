"""Built-in types inside of one's own kind.

`controller_gen.json` has a digest of what controller-gen v0.23.0 makes of the same types of k8s.io/api
v0.36.0 (`crd:generateEmbeddedObjectMeta=true,maxDescLen=0`), and the number of places in it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.api import core_v1
from manager.api.batch_v1 import JobTemplateSpec
from manager.api.core_v1 import ContainerPort, LocalObjectReference, PersistentVolumeClaim, PodTemplateSpec
from manager_tools.codegen.structural import object_schema, structural_schema
from tests.support import ROOT
from tests.support.ticks import Tick, TickSpec

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
    """Each schema within one."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from places(each)


def digest(schema: dict[str, Any]) -> list[Any]:
    """Return how many places a schema has, and a digest of all that it says."""
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
def test_builtin_type_has_the_schema_that_controller_gen_makes(name: str):
    assert digest(field(name)) == DIGESTS[name]


def test_digests_cover_every_field():
    assert set(DIGESTS) == set(structural_schema(Tick)["properties"]["spec"]["properties"])


def test_builtin_models_are_current():
    command = [sys.executable, str(ROOT / "scripts/generate-api-models"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_builtin_model_reads_and_writes_without_a_loss():
    assert JobTemplateSpec.model_validate(TEMPLATE).to_wire() == TEMPLATE


def test_builtin_model_takes_names_of_python():
    port = ContainerPort(container_port=80, host_ip="127.0.0.1")
    assert port.to_wire() == {"containerPort": 80, "hostIP": "127.0.0.1"}


def test_server_default_is_in_the_schema_and_not_in_the_object():
    assert object_schema(LocalObjectReference)["properties"]["name"] == {"type": "string", "default": ""}
    assert LocalObjectReference().to_wire() == {}


def test_embedded_metadata_has_what_templates_give_to_objects():
    metadata = object_schema(PodTemplateSpec)["properties"]["metadata"]
    names = ["annotations", "finalizers", "labels", "name", "namespace"]
    assert (metadata["type"], list(metadata["properties"])) == ("object", names)


def test_kind_inside_of_another_invents_no_defaults():
    claim = object_schema(PersistentVolumeClaim)
    assert claim["properties"]["kind"] == claim["properties"]["apiVersion"] == {"type": "string"}
    assert "required" not in claim


@pytest.mark.parametrize("module", ["core_v1", "apps_v1", "batch_v1", "meta_v1"])
def test_module_imports_builtin_types_at_their_first_use(module: str):
    code = (
        f"import sys, manager.cli.run, manager.api.{module} as module\n"
        "loaded = lambda: sorted(each for each in sys.modules if each.startswith('manager.api.builtin.'))\n"
        "before = loaded()\n"
        "from manager.api.core_v1 import EnvVar\n"
        "print(before, [each for each in loaded() if each not in before])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    new = "['manager.api.builtin.core_v1_container', 'manager.api.builtin.part']"
    assert done.stdout == f"['manager.api.builtin.index'] {new}\n"


def test_module_has_no_name_that_is_no_type():
    with pytest.raises(AttributeError, match=r"'manager\.api\.core_v1' has no attribute 'PodSpek'"):
        core_v1.__dict__["__getattr__"]("PodSpek")
    assert not hasattr(core_v1, "JobSpec")


def test_spec_of_builtin_types_is_shown_by_the_names_of_python():
    spec = TickSpec.model_validate({"jobTemplate": TEMPLATE})
    assert spec.job_template is not None
    assert spec.job_template.spec is not None
    assert spec.job_template.spec.template.spec is not None
    assert spec.job_template.spec.template.spec.containers[0].image == "busybox"
