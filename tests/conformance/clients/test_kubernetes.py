"""The official Python client: typed objects, dynamic objects and watches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane, Feature
from tests.support.eventually import eventually

pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("default::DeprecationWarning")]


@pytest.fixture(scope="module")
def kubernetes() -> Any:
    # Here, and not by every worker that collects this: it takes half a second to import.
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


def test_watch_reports_added_modified_and_deleted(client: Any, kubernetes: Any, namespace: str):
    core = kubernetes.client.CoreV1Api(client)
    start = core.list_namespaced_service(namespace).metadata.resource_version
    port = kubernetes.client.V1ServicePort(port=80)
    body = kubernetes.client.V1Service(
        metadata=kubernetes.client.V1ObjectMeta(name="seen"),
        spec=kubernetes.client.V1ServiceSpec(ports=[port]),
    )
    core.create_namespaced_service(namespace, body)
    core.patch_namespaced_service("seen", namespace, {"metadata": {"labels": {"a": "b"}}})
    core.delete_namespaced_service("seen", namespace)
    watch = kubernetes.watch.Watch()
    events = []
    for event in watch.stream(
        core.list_namespaced_service, namespace, resource_version=start, timeout_seconds=90
    ):
        events.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watch.stop()
    assert events == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


def test_deployment_becomes_available_and_is_deleted_with_its_pods(
    client: Any, kubernetes: Any, namespace: str, control_plane: ControlPlane
):
    control_plane.require(Feature.READY_PODS)
    labels = {"app": "web"}
    pod = {"containers": [{"name": "web", "image": "nginx"}], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": namespace}
    kubernetes.utils.create_from_dict(
        client, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    )
    apps, core = kubernetes.client.AppsV1Api(client), kubernetes.client.CoreV1Api(client)

    def available() -> Any:
        return apps.read_namespaced_deployment_status("web", namespace).status.available_replicas

    eventually(lambda: available() == 2)
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    eventually(lambda: len(core.list_namespaced_pod(namespace).items) == 1)
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    eventually(lambda: core.list_namespaced_pod(namespace).items == [])


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
