"""The official Python client: typed objects and dynamic objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("default::DeprecationWarning")]


@pytest.fixture(scope="module")
def kubernetes() -> Any:
    # Imported here, because the import takes half a second in each worker that collects this file.
    return pytest.importorskip("kubernetes")


@pytest.fixture
def client(control_plane: ControlPlane, kubernetes: Any) -> Iterator[Any]:
    with kubernetes.config.new_client_from_config(str(control_plane.kubeconfig)) as client:
        yield client


def test_kubernetes_client_creates_reads_and_deletes_objects(client: Any, kubernetes: Any, namespace: str):
    core = kubernetes.client.CoreV1Api(client)
    metadata = kubernetes.client.V1ObjectMeta(name="one", labels={"app": "x"})
    created = core.create_namespaced_config_map(
        namespace, kubernetes.client.V1ConfigMap(metadata=metadata, data={"a": "1"})
    )
    assert created.metadata.uid
    stale = core.read_namespaced_config_map("one", namespace)
    core.patch_namespaced_config_map("one", namespace, {"data": {"b": "2"}})
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1", "b": "2"}
    with pytest.raises(kubernetes.client.ApiException) as conflict:
        core.replace_namespaced_config_map("one", namespace, stale)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    assert [
        each.metadata.name
        for each in core.list_namespaced_config_map(namespace, label_selector="app=x").items
    ] == ["one"]
    core.delete_namespaced_config_map("one", namespace)
    with pytest.raises(kubernetes.client.ApiException) as missing:
        core.read_namespaced_config_map("one", namespace)
    assert missing.value.status == 404


def test_kubernetes_client_discovers_and_applies_custom_kinds(
    client: Any, kubernetes: Any, namespace: str, gadget_group: str
):
    dynamic = pytest.importorskip("kubernetes.dynamic")
    discovered = dynamic.DynamicClient(client)
    gadgets = discovered.resources.get(api_version=f"{gadget_group}/v1", kind="Gadget")
    body = {
        "apiVersion": f"{gadget_group}/v1",
        "kind": "Gadget",
        "metadata": {"name": "one"},
        "spec": {"size": 3},
    }
    applied = gadgets.server_side_apply(body=body, name="one", namespace=namespace, field_manager="test")
    assert applied.spec.size == 3
    status = {"status": {"ready": True}}
    gadgets.status.patch(
        body=status, name="one", namespace=namespace, content_type="application/merge-patch+json"
    )
    assert gadgets.get(name="one", namespace=namespace).status.ready is True
    with pytest.raises(dynamic.exceptions.UnprocessibleEntityError):
        gadgets.create(body={**body, "metadata": {"name": "two"}, "spec": {"size": 0}}, namespace=namespace)
    customs = kubernetes.client.CustomObjectsApi(client)
    listed = customs.list_namespaced_custom_object(gadget_group, "v1", namespace, "gadgets")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["one"]
