"""kubernetes-asyncio: typed objects, and a watch during concurrent writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("default::DeprecationWarning")]


@pytest.fixture(scope="module")
def kubernetes_asyncio() -> Any:
    # Imported here, because the import takes half a second in each worker that collects this file.
    return pytest.importorskip("kubernetes_asyncio")


@pytest.fixture
async def client(control_plane: ControlPlane, kubernetes_asyncio: Any) -> AsyncIterator[Any]:
    configuration = kubernetes_asyncio.client.Configuration()
    await kubernetes_asyncio.config.load_kube_config(
        str(control_plane.kubeconfig), client_configuration=configuration
    )
    async with kubernetes_asyncio.client.ApiClient(configuration) as client:
        yield client


async def test_kubernetes_asyncio_watch_reports_each_write_and_a_missing_object_raises_a_404_error(
    client: Any, kubernetes_asyncio: Any, namespace: str
):
    models = kubernetes_asyncio.client
    core = models.CoreV1Api(client)
    seen: list[tuple[str, str]] = []
    started = asyncio.Event()

    async def watch() -> None:
        stream = kubernetes_asyncio.watch.Watch().stream(
            core.list_namespaced_config_map, namespace, label_selector="watched"
        )
        async with stream:
            async for event in stream:
                seen.append((event["type"], event["object"].metadata.name))
                started.set()
                if event["type"] == "DELETED":
                    return

    metadata = models.V1ObjectMeta(name="one", labels={"watched": "yes"})
    await core.create_namespaced_config_map(namespace, models.V1ConfigMap(metadata=metadata))
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await started.wait()
        await core.patch_namespaced_config_map("one", namespace, {"data": {"a": "b"}})
        # The object no longer matches the selector, so the watch reports a deletion.
        await core.patch_namespaced_config_map("one", namespace, {"metadata": {"labels": {"watched": None}}})
    assert seen == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    with pytest.raises(models.ApiException) as missing:
        await core.read_namespaced_pod("none", namespace)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    assert '"reason":"NotFound"' in missing.value.body
