"""Comparison of installed CustomResourceDefinitions with the models, at the start and after changes."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import Field

from devcluster import DevCluster
from manager.api import ApiModel, Int32, Resource, Scale, Status, crd, preserve_unknown
from manager.controller import KeyBackoff, WorkQueue
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.operator.definitions import Definition, Definitions, Difference, definition_rights, differences
from manager.telemetry.metrics import Metrics
from manager_kinds.core_v1 import PodTemplateSpec
from manager_tools.codegen import custom_resource_definitions
from manager_tools.testing import LocalWire
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NAME = "boxes.test.example.com"


class Part(ApiModel):
    name: str
    size: Int32 = 1


class BoxSpec(ApiModel):
    parts: list[Part] = Field(default_factory=list)
    by_name: dict[str, Part] = Field(default_factory=dict)
    template: PodTemplateSpec | None = None
    free: Annotated[dict[str, Any], preserve_unknown()] = Field(default_factory=dict)
    size: Int32 = 1


class BoxStatus(Status):
    size: Int32 = 0


@crd(scale=Scale(".spec.size", ".status.size"))
class Box(Resource, group="test.example.com", version="v1", plural="boxes"):
    spec: BoxSpec = Field(default_factory=BoxSpec)
    status: BoxStatus = Field(default_factory=BoxStatus)


@crd(storage=False)
class OldBox(Resource, group="test.example.com", version="v1beta1", plural="boxes", kind="Box"):
    spec: BoxSpec = Field(default_factory=BoxSpec)
    status: BoxStatus = Field(default_factory=BoxStatus)


[INSTALLED] = custom_resource_definitions([Box])


def installed() -> dict[str, Any]:
    """Return the CustomResourceDefinition that the program declares."""
    return copy.deepcopy(INSTALLED)


def version_of(definition: dict[str, Any]) -> dict[str, Any]:
    return definition["spec"]["versions"][0]


def properties(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    node: Any = version_of(definition)["schema"]["openAPIV3Schema"]
    for step in path:
        node = node[step] if step in {"items", "additionalProperties"} else node["properties"][step]
    return node["properties"]


def test_crd_equal_to_the_declared_crd_has_no_differences():
    assert differences(installed(), [Box]) == []
    [two] = custom_resource_definitions([OldBox, Box])
    two["spec"]["conversion"] = {"strategy": "Webhook"}
    assert differences(two, [OldBox, Box]) == []
    keeps_all = installed()
    version_of(keeps_all)["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert differences(keeps_all, [Box]) == []


def test_crd_differences_name_fields_that_the_server_would_drop():
    definition = installed()
    del properties(definition, "spec")["size"]
    del properties(definition, "spec", "parts", "items")["size"]
    del properties(definition, "spec", "byName", "additionalProperties")["size"]
    del properties(definition, "spec", "template", "metadata")["labels"]
    del properties(definition, "status")["conditions"]
    assert [each.text for each in differences(definition, [Box])] == [
        "version v1 has no field .spec.parts[].size: the API server drops it",
        "version v1 has no field .spec.byName{}.size: the API server drops it",
        "version v1 has no field .spec.template.metadata.labels: the API server drops it",
        "version v1 has no field .spec.size: the API server drops it",
        "version v1 has no field .status.conditions: the API server drops it",
    ]
    assert not any(each.prevents_work for each in differences(definition, [Box]))


def test_crd_differences_include_subresources_versions_and_scope():
    definition = installed()
    version = version_of(definition)
    version["subresources"] = {}
    definition["spec"]["scope"] = "Cluster"
    assert differences(definition, [Box]) == [
        Difference("version v1 has no status subresource", prevents_work=True),
        Difference("version v1 has no scale subresource"),
        Difference("has the scope Cluster instead of Namespaced", prevents_work=True),
    ]
    definition = installed()
    version_of(definition).update(storage=False, served=True)
    assert differences(definition, [Box]) == [Difference("version v1 is not the storage version")]
    version_of(definition)["served"] = False
    assert differences(definition, [Box]) == [Difference("does not serve version v1", prevents_work=True)]
    assert differences(None, [Box]) == [Difference("is not installed", prevents_work=True)]
    assert differences(installed(), [OldBox, Box]) == [
        Difference("does not serve version v1beta1"),
        Difference("has the conversion strategy None instead of the program's webhook"),
    ]


def test_definition_rights_allow_only_list_and_watch_of_the_crds_of_the_operators():
    class Foreign(Resource, group="other.example.com", version="v1", plural="foreigns"):
        pass

    [rule] = definition_rights([OldBox, Box, Foreign])
    assert rule.resources == ("customresourcedefinitions",)
    assert (rule.verbs, rule.resource_names) == (("list", "watch"), (NAME,))
    assert definition_rights([Foreign]) == []


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    """Run a control plane without controllers; a thread creates it, because its creation reads files."""
    async with await asyncio.to_thread(DevCluster, port=None, controllers=False) as cluster:
        yield cluster


@asynccontextmanager
async def following(cluster: DevCluster, *, token: str = "") -> AsyncIterator[tuple[Definitions, Definition]]:
    """Watch the CRD of Box; yield the watch, and the gate that pauses the controller of Box."""
    wire = LocalWire(cluster, token)
    metrics, rng = Metrics(), random.Random(1)
    transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
    definitions = Definitions(transport, RestMapper(transport), metrics, rng)
    gate = definitions.follow([Box])
    task = asyncio.create_task(definitions.run())
    try:
        yield definitions, gate
    finally:
        task.cancel()
        await asyncio.wait([task])
        await transport.aclose()


async def test_crd_gate_stays_closed_and_pauses_the_queue_while_the_crd_is_invalid(
    cluster: DevCluster, log_lines: LogLines
):
    async with following(cluster) as (definitions, gate):
        await asyncio.sleep(1)
        assert definitions.problem() == f"{NAME} is not installed"
        opening = asyncio.create_task(gate.wait_synced())
        await asyncio.sleep(1)
        assert not opening.done()
        await cluster.client.create(CRDS, "", installed())
        await asyncio.sleep(1)
        assert opening.done()
        assert (definitions.problem(), definitions.detail()) == (None, None)

        queue: WorkQueue[Any] = WorkQueue("box", metrics=Metrics(), backoff=KeyBackoff(rng=random.Random(1)))
        running = asyncio.create_task(gate.run(queue))
        await asyncio.sleep(0)
        assert not queue.paused

        async def set_subresources(subresources: dict[str, Any]) -> None:
            changed = await cluster.client.get(CRDS, "", NAME)
            version_of(changed)["subresources"] = subresources
            await cluster.client.update(CRDS, "", changed)
            await asyncio.sleep(1)

        await set_subresources({})
        assert queue.paused
        assert definitions.problem() == f"{NAME} version v1 has no status subresource"
        assert definitions.detail() == f"{NAME} version v1 has no scale subresource"
        assert gate.problem == f"the definition {NAME} version v1 has no status subresource"

        await set_subresources(version_of(installed())["subresources"])
        assert not queue.paused
        running.cancel()
        await asyncio.wait([running])
    told = [line for line in log_lines if line["event"].startswith("the cluster's CRD ")]
    assert [line.get("difference") for line in told] == [
        "is not installed",
        None,
        "version v1 has no status subresource",
        "version v1 has no scale subresource",
        None,
    ]


async def test_crd_gate_opens_and_logs_one_line_when_reading_the_crd_is_forbidden(
    cluster: DevCluster, log_lines: LogLines
):
    async with following(cluster, token=cluster.add_user("nobody")) as (definitions, gate):
        await asyncio.sleep(200)
        await gate.wait_synced()
        assert (definitions.problem(), gate.problem) == (None, None)
    [told] = [line for line in log_lines if "cannot read a CRD" in line["event"]]
    assert told["definition"] == NAME
