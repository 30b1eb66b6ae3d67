"""Applies that the API server refuses; afterwards, the stored object is unchanged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio

from manager.api import Resource, Unstructured
from manager.client import Client, Outcome
from manager.kube.errors import Invalid
from tests.integration.test_client import Bench, running
from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract

LABELS = {"app": "child"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {
        "containers": [{"name": "main", "image": "image:1", "ports": [{"name": "web", "containerPort": 80}]}]
    },
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WORKLOAD = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Deployment": ("apps/v1", {"spec": WORKLOAD}),
    "StatefulSet": (
        "apps/v1",
        {
            "spec": {
                **WORKLOAD,
                "serviceName": "one",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
            }
        },
    ),
    "Job": (
        "batch/v1",
        {"spec": {"suspend": True, "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    ),
    "Service": ("v1", {"spec": {"selector": LABELS, "ports": [{"name": "web", "port": 80}]}}),
    "PersistentVolumeClaim": ("v1", {"spec": {**CLAIM, "storageClassName": "none"}}),
    "Secret": ("v1", {"immutable": True, "data": {"a": "YQ=="}}),
    "ConfigMap": ("v1", {"immutable": True, "data": {"a": "1"}}),
}


def named(bench: Bench, kind: str, *changes: Callable[[dict[str, Any]], None]) -> Resource:
    """Return the test's child object of this kind, with changes."""
    version, fields = OBJECTS[kind]
    content = copy.deepcopy(fields)
    content["metadata"] = {"name": "child", "namespace": bench.namespace, "annotations": {"n": "1"}}
    for change in changes:
        change(content)
    return Unstructured.of(version, kind).model_validate(content)


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets the value at a path such as `spec.ports.0.port`; None removes it."""

    def change(content: dict[str, Any]) -> None:
        there: Any = content
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in steps:
            there = there[step] if isinstance(step, int) else there.setdefault(step, {})
        if value is None:
            del there[last]
        else:
            there[last] = value

    return change


CONTAINER = "spec.template.spec.containers.0"
CASES = {
    "selector": ("Deployment", [at("spec.selector.matchLabels", {"app": "other"})]),
    "selector and labels": (
        "Deployment",
        [at("spec.selector.matchLabels.a", "b"), at("spec.template.metadata.labels.a", "b")],
    ),
    "serviceName": ("StatefulSet", [at("spec.serviceName", "two")]),
    "volumeClaimTemplates": (
        "StatefulSet",
        [at("spec.volumeClaimTemplates.0.spec.resources.requests.storage", "2Gi")],
    ),
    "another claim template": (
        "StatefulSet",
        [at("spec.volumeClaimTemplates", [{"metadata": {"name": "more"}, "spec": CLAIM}])],
    ),
    "Job's template": ("Job", [at(f"{CONTAINER}.image", "image:2")]),
    "Job's completions": ("Job", [at("spec.completions", 5)]),
    "clusterIP": ("Service", [at("spec.clusterIP", "None")]),
    "a port twice": (
        "Service",
        [at("spec.ports", [{"name": "web", "port": 80}, {"name": "web", "port": 81}])],
    ),
    "access modes": ("PersistentVolumeClaim", [at("spec.accessModes", ["ReadWriteMany"])]),
    "storage class": ("PersistentVolumeClaim", [at("spec.storageClassName", "other")]),
    "immutable Secret": ("Secret", [at("data.a", "Yg==")]),
    "immutable Secret made mutable": ("Secret", [at("immutable", None)]),
    "immutable ConfigMap": ("ConfigMap", [at("data", {"b": "1"})]),
    "name of a container": ("Deployment", [at(f"{CONTAINER}.name", "No Name")]),
    "no image": ("Deployment", [at(CONTAINER, {"name": "main"})]),
}


@pytest_asyncio.fixture
async def bench(crds: ControlPlane, namespace: str):
    async with running(crds, namespace) as ready:
        yield ready


async def state(client: Client, child: Resource) -> dict[str, Any]:
    """Return the stored object without the fields that controllers write."""
    found = json.loads((await client.uncached.get(type(child), child.key)).origin or b"")
    found.pop("status", None)
    metadata = found["metadata"]
    del metadata["resourceVersion"]
    metadata["annotations"].pop("deployment.kubernetes.io/revision", None)
    ours = [each for each in metadata["managedFields"] if each["manager"].startswith("test")]
    return {**found, "metadata": {**metadata, "managedFields": ours}}


@pytest.mark.parametrize("extended", [False, True], ids=["", "extended by another client"])
@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
@pytest.mark.parametrize(("kind", "changes"), CASES.values(), ids=CASES)
async def test_apply_leaves_the_stored_object_unchanged_when_the_server_refuses_the_desired_fields(
    bench: Bench, kind: str, changes: list[Any], applied: bool, extended: bool
):
    client = bench.client.named("child")
    child = (await client.apply(named(bench, kind))).object
    if applied:
        await client.apply(named(bench, kind, at("metadata.annotations.n", "2")))
    if extended:
        await extend(bench, kind, child)
    before = await state(client, child)
    refused = named(bench, kind, at("metadata.annotations.n", "3"), *changes)
    for _ in range(2):
        with pytest.raises(Invalid):
            await client.apply(refused)
        assert await state(client, child) == before


async def extend(bench: Bench, kind: str, child: Resource) -> None:
    """Add items to lists of the child as another client."""
    other = await bench.client.uncached.get(type(child), child.key)
    spec = other.content.get("spec", {})
    if kind in {"Deployment", "StatefulSet"}:
        [container] = spec["template"]["spec"]["containers"]
        container["ports"].append({"name": "metrics", "containerPort": 81})
        spec["template"]["spec"]["containers"].append({"name": "sidecar", "image": "image:1"})
    elif kind == "Service":
        spec["ports"].append({"name": "metrics", "port": 81})
    else:
        other.metadata.labels["theirs"] = "1"
    await bench.client.named("another").patch(other)


@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
async def test_apply_increments_the_generation_once_and_keeps_a_container_that_another_client_added(
    bench: Bench, applied: bool
):
    client = bench.client.named("child")
    first = at(f"{CONTAINER}.env", [{"name": "OLD", "value": "1"}])
    child = (await client.apply(named(bench, "Deployment", first))).object
    if applied:
        await client.apply(named(bench, "Deployment", first, at("metadata.annotations.n", "2")))
    other = await client.uncached.get(type(child), child.key)
    containers = other.content["spec"]["template"]["spec"]["containers"]
    containers[0]["ports"][0]["containerPort"] = 8080
    containers.insert(0, {"name": "sidecar", "image": "image:1"})
    generation = (await bench.client.named("another").patch(other)).metadata.generation
    wanted = named(
        bench, "Deployment", at(f"{CONTAINER}.image", "image:2"), at("metadata.annotations.n", "4")
    )
    found = await client.apply(wanted)
    assert found.outcome is Outcome.UPDATED
    assert {each.manager for each in found.conflicts} == {"test-another"}
    after = found.object
    sidecar, main = after.content["spec"]["template"]["spec"]["containers"]
    assert (sidecar["name"], main["image"], main["ports"][0]["containerPort"]) == ("sidecar", "image:2", 80)
    assert ("env" in main, after.metadata.annotations["n"]) == (False, "4")
    assert after.metadata.generation == generation + 1
    before = bench.writes()
    assert (await client.apply(wanted)).outcome is Outcome.UNCHANGED
    assert bench.writes() == before


async def test_apply_keeps_list_items_of_other_clients_unless_they_conflict(bench: Bench, crds: ControlPlane):
    await bench.client.apply(named(bench, "Service"))
    await bench.client.apply(
        named(bench, "Service", at("spec.ports.0.port", 81))
    )  # the first change moves the fields to an Apply entry
    path = f"/api/v1/namespaces/{bench.namespace}/services/child"
    [port] = crds.api.get(path)["spec"]["ports"]
    others = [
        {"name": "web", "port": 8080, "protocol": "TCP"},
        {"name": "admin", "port": 9090, "protocol": "TCP"},
    ]
    crds.api.patch(path, {"spec": {"ports": [{**port, "name": "old"}, *others]}})
    applied = await bench.client.apply(named(bench, "Service", at("spec.ports.0.port", 81)))
    stored = crds.api.get(path)["spec"]["ports"]
    assert {(each["name"], each["port"]) for each in stored} == {("web", 81), ("admin", 9090)}
    assert {each.field for each in applied.conflicts} == {'.spec.ports[port=8080,protocol="TCP"]'}
    await bench.client.apply(named(bench, "Service", at("spec.ports.0.port", 82)))
    stored = crds.api.get(path)["spec"]["ports"]
    assert {(each["name"], each["port"]) for each in stored} == {("web", 82), ("admin", 9090)}
