"""lightkube: typed objects, patches and a watch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane

lightkube = pytest.importorskip("lightkube")

from lightkube.core import exceptions  # noqa: E402 -- importorskip comes first
from lightkube.models.meta_v1 import ObjectMeta  # noqa: E402
from lightkube.resources.core_v1 import ConfigMap  # noqa: E402
from lightkube.types import PatchType  # noqa: E402

pytestmark = [pytest.mark.contract, pytest.mark.filterwarnings("default::DeprecationWarning")]


@pytest.fixture
def client(control_plane: ControlPlane, namespace: str) -> Iterator[Any]:
    config = lightkube.KubeConfig.from_file(control_plane.kubeconfig)
    with contextlib.closing(
        lightkube.Client(config=config, namespace=namespace, field_manager="lightkube")
    ) as client:
        yield client


def test_lightkube_creates_watches_and_deletes_objects(client: Any):
    created = client.create(ConfigMap(metadata=ObjectMeta(name="one"), data={"a": "1"}))
    client.patch(ConfigMap, "one", {"data": {"b": "2"}})
    client.patch(ConfigMap, "one", [{"op": "remove", "path": "/data/a"}], patch_type=PatchType.JSON)
    assert client.get(ConfigMap, "one").data == {"b": "2"}
    with pytest.raises(exceptions.ApiError) as conflict:
        client.replace(created)
    assert (conflict.value.status.code, conflict.value.status.reason) == (409, "Conflict")
    client.delete(ConfigMap, "one")
    version = created.metadata.resourceVersion
    events = client.watch(ConfigMap, fields={"metadata.name": "one"}, resource_version=version)
    seen = [next(events)[0] for _ in range(3)]
    assert seen == ["MODIFIED", "MODIFIED", "DELETED"]
    events.close()
