"""Generated CRDs and roles, applied to a real API server."""

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
from tests.support import ROOT
from tests.support.api_access import ApiFailure
from tests.support.api_objects import manifest
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, wait_served
from tests.support.eventually import eventually
from tests.support.kinds import Gadget, OldGadget, Tick, Widget
from tests.support.manager_process import run_once

pytestmark = pytest.mark.contract


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
        eventually(lambda path=path: crds.api.find(path) is None)


@pytest.fixture
def memcacheds(plane: ControlPlane, namespace: str) -> str:
    """Return the path of the namespace's Memcacheds."""
    return f"/apis/cache.example.com/v1/namespaces/{namespace}/memcacheds"


@pytest.fixture
def widgets(plane: ControlPlane, namespace: str) -> str:
    """Return the path of the namespace's Widgets."""
    return f"/apis/test.example.com/v1/namespaces/{namespace}/widgets"


def memcached(**spec: Any) -> dict[str, Any]:
    return manifest("cache.example.com/v1", "Memcached", "sample", **spec)


def widget(**spec: Any) -> dict[str, Any]:
    return manifest("test.example.com/v1", "Widget", "sample", **spec)


def test_memcached_schema_refuses_name_longer_than_a_label_value(plane: ControlPlane, memcacheds: str):
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
        ({"unit": "foot"}, "spec.unit: Unsupported value"),
        ({"colour": "Red"}, "spec.colour in body should match"),
        ({"ratio": 0}, "spec.ratio in body should be greater than 0"),
        ({"ratio": 1}, "spec.ratio in body should be less than 1"),
        ({"step": 3}, "spec.step in body should be a multiple of 5"),
        ({"limits": {"low": 9}}, "low must not be above high"),
        ({"spareLimits": {"low": 9}}, "low must not be above high"),
        ({"since": "2026-01-01T00:00:00Z"}, "only slow widgets have a past"),
        ({"since": "yesterday"}, "spec.since in body must be of type date-time"),
        ({"serial": "1"}, "spec.serial in body must be of type uuid"),
        ({"ports": [{"name": "a"}]}, "spec.ports[0].number: Required value"),
        ({"ports": [{"name": "a", "number": 0}]}, "spec.ports[0].number in body should be greater"),
        ({"ports": [{"name": "a", "number": 1}, {"name": "a", "number": 2}]}, "Duplicate value"),
        ({"ports": [{"name": "a", "number": 1, "target": True}]}, "spec.ports[0].target"),
        ({"tags": ["a", "a"]}, "Duplicate value"),
        ({"tags": [None]}, "spec.tags[0]"),
        ({"groups": {"g": [{"name": "", "number": 1}]}}, "should be at least 1 chars long"),
    ],
)
def test_widget_schema_refuses_an_invalid_spec(
    plane: ControlPlane, widgets: str, spec: dict[str, Any], message: str
):
    assert message in plane.api.refusal(widgets, widget(**spec))


def tick(**pod: Any) -> dict[str, Any]:
    """Return a Tick manifest with the template of a Job."""
    spec = {"containers": [{"name": "main", "image": "busybox"}], **pod}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": spec}}}
    return manifest("demo.example.com/v1", "Tick", "sample", jobTemplate=template)


def test_server_stores_a_pod_template_field_with_its_defaults(plane: ControlPlane, namespace: str):
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


def test_server_serves_short_names_labels_and_selectable_fields_of_a_kind(
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
        ({"containers": [{"name": 3}]}, '.containers[0].name: Invalid value: "integer"'),
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
        ({"terminationGracePeriodSeconds": 1.5}, ".terminationGracePeriodSeconds: Invalid value"),
        ({"volumes": [{"emptyDir": {}}]}, ".volumes[0].name: Required value"),
        ({"nodeSelector": {"a": 1}}, '.nodeSelector.a: Invalid value: "integer"'),
    ],
)
def test_server_refuses_an_invalid_pod_template_field(
    plane: ControlPlane, namespace: str, pod: dict[str, Any], message: str
):
    path = f"/apis/demo.example.com/v1/namespaces/{namespace}/ticks"
    refusal = plane.api.refusal(path, tick(**pod))
    assert "spec.jobTemplate.spec.template.spec" in refusal
    assert message in refusal.replace('\\"', '"')


def test_transition_rule_refuses_a_change_of_an_immutable_field(plane: ControlPlane, widgets: str):
    plane.api.create(widgets, widget(colour="blue"))
    with pytest.raises(ApiFailure, match="the colour is immutable"):
        plane.api.patch(f"{widgets}/sample", {"spec": {"colour": "green"}})


def test_server_serves_each_version_and_warns_about_the_deprecated_version(plane: ControlPlane):
    old = {
        "apiVersion": "test.example.com/v1beta1",
        "kind": "Gadget",
        "metadata": {"name": "old"},
        "spec": {},
    }
    warned = plane.kubectl("create", "-f", "-", stdin=json.dumps(old))
    assert "Warning: use test.example.com/v1" in warned.stderr
    gadget = plane.api.get("/apis/test.example.com/v1/gadgets/old")
    assert (gadget["apiVersion"], gadget["spec"]) == ("test.example.com/v1", {"size": 1})


@pytest.mark.oldest
def test_server_accepts_every_config_folder_without_warnings(plane: ControlPlane):
    system = "/api/v1/namespaces/system"  # where the roles have the manager, until kustomize moves it
    if plane.api.find(system) is None:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": "system"}})
    for folder in ("crd", "rbac", "samples"):
        apply = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors")
        plane.kubectl(*apply, "-k", ROOT / "config" / folder)
    plane.api.delete(system)
    if plane.supports(Feature.WORKLOADS):
        eventually(lambda: plane.api.find(system) is None)


def test_model_command_generates_a_model_from_a_crd_on_the_server(plane: ControlPlane, tmp_path: Path):
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


def of_string(**words: Any) -> dict[str, Any]:
    return {"type": "string", **words}


def of_integer(**words: Any) -> dict[str, Any]:
    return {"type": "integer", **words}


def of_list(items: dict[str, Any], **words: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **words}


def ruled(rule: str, **words: Any) -> dict[str, Any]:
    """Return the schema of a string with a validation rule."""
    return of_string(**{"x-kubernetes-validations": [{"rule": rule, **words}]})


EMBEDDED = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        *(
            pytest.param(of_string(pattern=pattern), f"error parsing regexp: {why}", id=pattern)
            for pattern, why in [
                (r"[\u00e4\w]", r"invalid escape sequence: `\u`"),
                (r"a\Z", r"invalid escape sequence: `\Z`"),
                (r"(a)\1", r"invalid escape sequence: `\1`"),
                (r"[\b]", r"invalid escape sequence: `\b`"),
                ("^[a-z]{1,2000}$", "invalid repeat count: `{1,2000}`"),
                ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
                ("^a*+b$", "invalid nested repetition operator: `*+`"),
                ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
                ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
                ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
                ("(a)?(?(1)b|c)", "invalid or unsupported Perl syntax: `(?(`"),
                ("(?P<x>a)(?P=x)", "invalid or unsupported Perl syntax: `(?P`"),
                ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
                ("(?<=a)", "invalid named capture: `(?<=a)`"),
                ("[a--b]", "invalid character class range: `a--`"),
            ]
        ),
        (of_integer(maximum=2**63 - 1, default=5), "Maximum boundary value must be of type integer (default"),
        (of_integer(minimum=-(2**63), default=5), "Minimum boundary value must be of type integer (default"),
        (of_integer(format="int32", maximum=2**31, default=5), "Maximum boundary value must be of type"),
        (of_integer(multipleOf=0.5, default=5), "MultipleOf value must be of type integer"),
        (of_integer(default=1.5), "must be of type integer"),
        (of_string(maxLength=2, default="long"), "Too long"),
        (of_string(enum=["x"], default="z"), 'Unsupported value: "z"'),
        (of_string(pattern="^a$", default="z"), "should match '^a$'"),
        (of_string(format="date", default="never"), "must be of type date"),
        (of_list(of_string(), maxItems=1, default=["a", "b"]), "Too many"),
        ({"type": "object", **EMBEDDED, "default": {}}, "default.kind: Required value"),
        ({"type": "null"}, "type cannot be set to null"),
        (of_list(of_string(), uniqueItems=True), "uniqueItems cannot be set to true"),
        (of_list(of_string(nullable=True), **{"x-kubernetes-list-type": "set"}), "cannot be nullable"),
        (ruled("self =="), "Syntax error"),
        (ruled("self.matches('a{1,2000}')"), "invalid matches argument"),
        (ruled("self == 'a'", message="b\nc"), "must not contain line breaks"),
        (ruled("self == 'a'", reason="Odd"), 'Unsupported value: "Odd"'),
        (ruled("self.split(',').all(x, x.matches('^a+$'))"), "exceeds budget by factor of more than 100x"),
    ],
)
def test_server_refuses_each_crd_that_the_generator_refuses(
    plane: ControlPlane, schema: dict[str, Any], why: str
):
    assert why in plane.api.refusal(f"{DEFINITIONS}?dryRun=All", thing_with(schema))


@pytest.mark.parametrize(
    "schema",
    [
        *(
            pytest.param(of_string(pattern=pattern), id=pattern)
            for pattern in (r"[\x{e4}\w]", r"a\z", "(?i)a{1000}", "(?P<x>a)|(?P<x>b)", "(?U)a*", r"[\d-z]")
        ),
        of_integer(maximum=2**63 - 1024, minimum=-(2**63) + 1024, default=5),
        {
            "type": "object",
            "properties": {"namespace": of_string()},
            "x-kubernetes-validations": [{"rule": "!has(self.namespace) || self.namespace == 'a'"}],
        },
    ],
)
def test_server_accepts_each_crd_that_the_generator_accepts(plane: ControlPlane, schema: dict[str, Any]):
    plane.api.create(f"{DEFINITIONS}?dryRun=All", thing_with(schema))


def thing_with(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a kind whose objects have one field."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"value": schema}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.example.com"},
        "spec": {"group": "test.example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }
