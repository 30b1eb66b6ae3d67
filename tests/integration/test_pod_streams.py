"""Errors of exec, attach and port-forward from the API servers of the control planes."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.client import connect
from manager.kube.errors import ApiError, BadRequest, Forbidden, NotFound
from manager_kubernetes_asyncio.pod_streams import PodStreams
from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract


@pytest.fixture
def pending(control_plane: ControlPlane, namespace: str) -> ObjectKey:
    """Create a pod that stays pending, because no node accepts it."""
    containers = [{"name": name, "image": "any"} for name in ("one", "two")]
    spec = {"containers": containers, "nodeSelector": {"example.com/none": "here"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pending"}, "spec": spec}
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return ObjectKey(namespace, "pending")


async def refusal(streams: PodStreams, way: str, pod: ObjectKey, container: str = "one") -> ApiError:
    """Return the error of exec, attach or port-forward, selected by `way`."""

    async def enter() -> Any:
        match way:
            case "exec":
                return await streams.exec(pod, ["true"], container=container)
            case "attach":
                async with streams.attach(pod, container=container) as attached:
                    return await anext(attached)
            case _:
                async with streams.port_forward(pod, 80) as connection:
                    return await connection.read()

    with pytest.raises(ApiError) as refused:
        await enter()
    return refused.value


@pytest.mark.parametrize("way", ["exec", "attach", "port_forward"])
async def test_exec_attach_and_port_forward_errors_have_the_server_message_for_unscheduled_or_missing_pods(
    control_plane: ControlPlane, pending: ObjectKey, way: str
):
    async with connect("test", kubeconfig=str(control_plane.kubeconfig)) as client:
        streams = client.pod_streams
        unscheduled = await refusal(streams, way, pending)
        missing = await refusal(streams, way, pending._replace(name="missing"))
        assert isinstance(unscheduled, BadRequest)
        assert unscheduled.message == "pod pending does not have a host assigned"
        assert isinstance(missing, NotFound)
        assert missing.message == 'pods "missing" not found'
        if way != "port_forward":
            unknown = await refusal(streams, way, pending, "three")
            assert isinstance(unknown, BadRequest)
            assert unknown.message == "container three is not valid for pod pending"
            unnamed = await refusal(streams, way, pending, "")
            assert unnamed.message == (
                "a container name must be specified for pod pending, choose one of: [one two]"
            )


async def test_exec_by_websocket_needs_get_and_create_rights(control_plane: ControlPlane, pending: ObjectKey):
    user = f"user-{secrets.token_hex(3)}"
    here = f"--namespace={pending.namespace}"
    control_plane.kubectl(here, "create", "role", user, "--verb=get", "--resource=pods/exec")
    control_plane.kubectl(here, "create", "rolebinding", user, f"--role={user}", f"--user={user}")

    async def until(streams: PodStreams, kind: type[ApiError], said: str) -> None:
        """Wait until exec raises this error, because the server sees a new role with a delay."""
        async with asyncio.timeout(30):
            while True:
                error = await refusal(streams, "exec", pending)
                if isinstance(error, kind) and said in str(error):
                    return
                await asyncio.sleep(0.1)

    async with connect("test", kubeconfig=str(control_plane.user_kubeconfig(user))) as client:
        advice = 'add rbac(groups="", resources="pods/exec", verbs="create") to the operator'
        await until(client.pod_streams, Forbidden, advice)
        added = '[{"op": "add", "path": "/rules/0/verbs/-", "value": "create"}]'
        control_plane.kubectl(here, "patch", "role", user, "--type=json", f"--patch={added}")
        await until(client.pod_streams, BadRequest, "host assigned")
