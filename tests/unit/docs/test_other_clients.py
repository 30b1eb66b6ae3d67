"""The code of docs/other-clients.md runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import Field

import manager
from manager.api import ApiModel, ObjectMeta, Resource, Unstructured, crd
from manager_tools.testing import operated
from tests.support.crds import untyped_definition
from tests.support.markdown import Page

pytestmark = pytest.mark.virtual_time


class SizedStatus(ApiModel):
    memory: str = ""


@crd()
class Sized(Resource, group="test.example.com", version="v1", plural="sizeds"):
    """An object whose pod has the same name."""

    status: SizedStatus = Field(default_factory=SizedStatus)


async def test_example_operator_copies_the_memory_use_from_pod_metrics_into_the_status():
    [code] = [each.text for each in Page(Path("docs/other-clients.md")).blocks() if "PodMetrics" in each.text]
    names = {name: getattr(manager, name) for name in ("Operator", "Context", "Result", "rbac")}
    names |= {"Sized": Sized, "Unstructured": Unstructured}
    exec(code, names)
    async with operated(names["SizedOperator"]) as world:
        resource = "customresourcedefinitions.apiextensions.k8s.io"
        definition = untyped_definition("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
        await world.cluster.client.create(resource, None, definition)
        obj = await world.create(Sized(metadata=ObjectMeta(name="web", namespace="default")))
        await asyncio.sleep(1)  # until the definition is served
        metrics = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": "web", "namespace": "default"},
            "containers": [{"name": "web", "usage": {"memory": "12Mi", "cpu": "3m"}}],
        }
        await world.create(Unstructured.parse(metrics))
        await world.until(obj, lambda it: it.status.memory == "12Mi", timeout=70)
