"""Generated CRDs and the overlays of config/ on each control plane."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager_kinds.manifests import yaml_stream
from manager_tools.codegen import custom_resource_definitions
from tests.support.api_access import ApiFailure
from tests.support.api_objects import manifest
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS, wait_served
from tests.support.eventually import eventually
from tests.support.kinds import Gadget, OldGadget, Tick, Widget
from tests.support.manager_process import run_once
from tests.support.manifests import OVERLAYS, SYSTEM, Manifest, manifests, the

pytestmark = pytest.mark.contract

# Defined by cert-manager, the Prometheus operator and OLM; the scorecard's file never reaches a server.
ELSEWHERE = {
    *("cert-manager.io", "monitoring.coreos.com"),
    *("operators.coreos.com", "scorecard.operatorframework.io"),
}


@pytest.fixture(scope="module")
def plane(crds: ControlPlane) -> Iterator[ControlPlane]:
    """Install the CRDs of the operators and of this module's kinds on the shared control plane."""
    own = custom_resource_definitions([Widget, OldGadget, Gadget, Tick])
    crds.api.apply(yaml.safe_load_all(yaml_stream(own)))
    wait_served(crds)
    yield crds
    paths = [f"{DEFINITIONS}/{definition['metadata']['name']}" for definition in own]
    # Delete all at once: after each deletion the server publishes the large schemas of the others again.
    for path in paths:
        crds.api.delete(path)
    for path in paths:
        eventually(lambda path=path: crds.api.find(path) is None, every=0.5)


@pytest.fixture
def memcacheds(plane: ControlPlane, namespace: str) -> str:
    """Return the API path of Memcacheds in the test's namespace."""
    return f"/apis/cache.example.com/v1/namespaces/{namespace}/memcacheds"


@pytest.fixture
def widgets(plane: ControlPlane, namespace: str) -> str:
    """Return the API path of Widgets in the test's namespace."""
    return f"/apis/test.example.com/v1/namespaces/{namespace}/widgets"


def memcached(**spec: Any) -> dict[str, Any]:
    return manifest("cache.example.com/v1", "Memcached", "sample", **spec)


def widget(**spec: Any) -> dict[str, Any]:
    return manifest("test.example.com/v1", "Widget", "sample", **spec)


def test_memcached_schema_refuses_a_name_longer_than_63_characters(plane: ControlPlane, memcacheds: str):
    def named(length: int) -> dict[str, Any]:
        return {**memcached(size=1), "metadata": {"name": "m" * length}}

    plane.api.create(memcacheds, named(63))
    # The message begins with the field.
    assert "metadata.name: Invalid value: " in plane.api.refusal(memcacheds, named(64))
    assert "must be at most 63 characters" in plane.api.refusal(memcacheds, named(64))


def test_widget_spec_survives_a_round_trip_through_the_api_server(plane: ControlPlane, widgets: str):
    spec = {
        "mode": "slow",
        "otherMode": "fast",
        "unit": "metre",
        "colour": "blue",
        "ratio": 0.25,
        "step": 10,
        "large": 2**40,
        "limits": {"low": 2, "high": 3},
        "ports": [
            {"name": "a", "number": 1, "protocol": "TCP", "target": "25%"},
            {"name": "a", "number": 1, "protocol": "UDP", "target": 80},
        ],
        "tags": ["one", "two"],
        "path": [],
        "holes": ["a", None],
        "selector": {"a": "b"},
        "groups": {"g": [{"name": "a", "number": 1, "protocol": "TCP"}]},
        "settings": {"anyName": {"you": ["like"]}},
        "anything": 7,
        "since": "2026-01-01T00:00:00Z",
        "day": "2026-01-01",
        "serial": "4a8d3c6e-1b5f-4a94-9df7-0f4eb21c8d2b",
        "title": "t",
    }
    created = plane.api.request("POST", widgets, body=widget(**spec))
    assert json.loads(created)["spec"] == spec
    assert Widget.decode(created.encode()).to_wire()["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mode": "sideways"}, 'spec.mode: Unsupported value: "sideways"'),
        ({"colour": "Red"}, "spec.colour in body should match"),
        ({"ratio": 0}, "spec.ratio in body should be greater than 0"),
        ({"limits": {"low": 9}}, "low must not be above high"),
        ({"since": "2026-01-01T00:00:00Z"}, "only slow widgets have a past"),
        ({"since": "yesterday"}, "spec.since in body must be of type date-time"),
        ({"ports": [{"name": "a"}]}, "spec.ports[0].number: Required value"),
        ({"ports": [{"name": "a", "number": 1}, {"name": "a", "number": 2}]}, "Duplicate value"),
        ({"ports": [{"name": "a", "number": 1, "target": True}]}, "spec.ports[0].target"),
        ({"tags": ["a", "a"]}, "Duplicate value"),
        ({"groups": {"g": [{"name": "", "number": 1}]}}, "should be at least 1 chars long"),
    ],
)
def test_widget_schema_refuses_an_invalid_spec(
    plane: ControlPlane, widgets: str, spec: dict[str, Any], message: str
):
    assert message in plane.api.refusal(widgets, widget(**spec))


def tick(**pod: Any) -> dict[str, Any]:
    """Return a Tick manifest whose Job template has these pod fields."""
    spec = {"containers": [{"name": "main", "image": "busybox"}], **pod}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": spec}}}
    return manifest("demo.example.com/v1", "Tick", "sample", jobTemplate=template)


def test_server_adds_only_schema_defaults_to_a_pod_template_in_a_custom_object(
    plane: ControlPlane, namespace: str
):
    path = f"/apis/demo.example.com/v1/namespaces/{namespace}/ticks"
    container = {
        "name": "main",
        "args": [],
        "env": [{"name": "A", "value": ""}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}},
        "livenessProbe": {"httpGet": {"port": "http"}},
    }
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"optional": True}}]
    made = tick(containers=[container], volumes=volumes)
    stored = plane.api.create(path, made)["spec"]["jobTemplate"]
    wanted = made["spec"]["jobTemplate"]
    pod = wanted["spec"]["template"]["spec"]
    pod["containers"][0]["ports"][0]["protocol"] = "TCP"
    pod["volumes"][1]["configMap"]["name"] = ""
    assert stored == wanted
    plane.api.delete(f"{path}/sample")


def test_server_serves_the_short_names_and_selectable_fields_that_a_crd_declares(
    plane: ControlPlane, namespace: str
):
    path = f"/apis/demo.example.com/v1/namespaces/{namespace}/ticks"
    for name, suspend in (("a", True), ("b", False), ("c", None)):
        made = tick() | {"metadata": {"name": name}}
        made["spec"]["jobTemplate"]["spec"]["suspend"] = suspend
        plane.api.create(path, made)
    metadata = plane.api.get(f"{DEFINITIONS}/ticks.demo.example.com")["metadata"]
    assert (metadata["labels"], metadata["annotations"]["test.example.com/why"]) == (
        {"team": "blue"},
        "to be read",
    )
    for selector, names in (("=true", ["a"]), ("=false", ["b"]), ("!=true", ["b", "c"]), ("=", ["c"])):
        found = plane.api.get(path, fieldSelector=f"spec.jobTemplate.spec.suspend{selector}")
        assert found["kind"] == "TickCollection"
        assert [each["metadata"]["name"] for each in found["items"]] == names
    with pytest.raises(ApiFailure, match="field label not supported"):
        plane.api.get(path, fieldSelector="spec.size=1")
    shown = plane.kubectl("get", "ticktock", "-n", namespace, "--field-selector=spec.when=", "-o", "name")
    assert shown.stdout.split() == [f"tick.demo.example.com/{name}" for name in "abc"]
    assert len(plane.kubectl("get", "clocks", "-n", namespace, "--no-headers").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"containers": None}, ".containers: Required value"),
        ({"containers": [{}]}, ".containers[0].name: Required value"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, '.containers[1]: Duplicate value: {"name":"a"}'),
        ({"containers": [{"name": "a", "ports": [{"containerPort": "80"}]}]}, ".ports[0].containerPort: Inv"),
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]},
            '.ports[1]: Duplicate value: {"containerPort":80,"protocol":"TCP"}',
        ),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "lots"}}}]}, ".resources.limits.cpu"),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": 0.5}}}]}, ".resources.limits.cpu"),
        (
            {"containers": [{"name": "a", "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}]},
            ".env[0].valueFrom.fieldRef.fieldPath: Required value",
        ),
        ({"tolerations": [{"tolerationSeconds": "9"}]}, ".tolerations[0].tolerationSeconds: Invalid value"),
    ],
)
def test_server_refuses_a_custom_object_with_an_invalid_pod_template(
    plane: ControlPlane, namespace: str, pod: dict[str, Any], message: str
):
    path = f"/apis/demo.example.com/v1/namespaces/{namespace}/ticks"
    refusal = plane.api.refusal(path, tick(**pod))
    assert "spec.jobTemplate.spec.template.spec" in refusal
    assert message in refusal.replace('\\"', '"')


@pytest.mark.oldest
@pytest.mark.long
def test_api_server_accepts_every_kustomize_overlay_without_warnings(crds: ControlPlane, namespace: str):
    # Pods that could do more than the manager's namespace allows cause warnings.
    labels = the("Namespace", SYSTEM)["metadata"]["labels"]
    crds.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    objects: list[Manifest] = []
    for each in (found for overlay in OVERLAYS for found in manifests(overlay)):
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace
        if each["apiVersion"].partition("/")[0] not in ELSEWHERE and each not in objects:
            objects.append(each)
    kinds = {each["kind"] for each in objects}
    assert {"CustomResourceDefinition", "Deployment", "NetworkPolicy", "Pet", "Role"} <= kinds
    done = crds.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", f"--namespace={namespace}"),
        *("--validate=strict", "--warnings-as-errors", "--filename=-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    assert len(done.stdout.splitlines()) == len(objects)


def test_model_command_generates_a_model_from_the_openapi_document_of_the_server(
    plane: ControlPlane, tmp_path: Path
):
    def made(kind: str) -> subprocess.CompletedProcess[str]:
        return run_once("model", f"--from={kind}", f"--kubeconfig={plane.kubeconfig}", folder=tmp_path)

    for kind, told in (
        ("deploy", 'class Deployment(Resource, group="apps", version="v1", plural="deployments"):'),
        ("Event.core", 'class Event(Resource, group="", version="v1", plural="events"):'),
        ("widgets.test.example.com", 'class Widget(Resource, group="test.example.com", version="v1"'),
        ("Gadget", 'plural="gadgets", namespaced=False):'),
    ):
        done = made(kind)
        assert told in done.stdout, done.stderr
        exec(compile(done.stdout, kind, "exec"), {"__name__": "made"})
    for kind, said in (
        ("Event", "the API server has several of this name: Event.core, Event.events.k8s.io"),
        ("Deploymnet.apps", "the API server has no such kind in the group apps; did you mean Deployment?"),
    ):
        done = made(kind)
        assert (done.returncode, done.stderr) == (2, f"operator-manager: model: {kind}: {said}\n")


BOUNDARY = "boundary value must be of type integer"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "integer", "default": 5, "maximum": 2**63 - 1}, f"Maximum {BOUNDARY}"),
        ({"type": "integer", "default": 5, "minimum": -(2**63)}, f"Minimum {BOUNDARY}"),
        ({"type": "integer", "default": 5, "format": "int32", "maximum": 2**31}, f"Maximum {BOUNDARY}"),
        ({"type": "integer", "default": 5, "multipleOf": 0.5}, "MultipleOf value must be of type integer"),
        (
            {
                "type": "array",
                "items": {"type": "string", "nullable": True},
                "x-kubernetes-list-type": "set",
            },
            "cannot be nullable",
        ),
        ({"type": "integer", "default": 5, "maximum": 2**63 - 1024, "minimum": -(2**63) + 1024}, ""),
        ({"type": "string", "pattern": r"[\d-z]"}, ""),
    ],
)
def test_server_refuses_an_invalid_crd_schema_with_a_reason_and_accepts_a_valid_schema(
    plane: ControlPlane, schema: dict[str, Any], why: str
):
    """Try schemas that the recordings in tests/recordings/cases/custom do not contain."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"value": schema}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    spec = {"group": "test.example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    definition = {"metadata": {"name": "things.test.example.com"}, "spec": spec}
    refusal = plane.api.refusal(f"{DEFINITIONS}?dryRun=All", definition)
    assert why in refusal
    assert bool(why) is bool(refusal)
