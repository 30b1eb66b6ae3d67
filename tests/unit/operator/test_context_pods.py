"""Reconciles that use logs, exec, attach and port-forward, or models of kubernetes-asyncio."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.api.pod_sessions import Process, Session
from manager import Context, Operator, Owns, rbac
from manager.api import ObjectMeta
from manager.kube.errors import Forbidden
from manager_kinds.core_v1 import ConfigMap, Pod, Secret
from manager_tools.testing import operated
from tests.support.running_pods import create_running_pod
from tests.unit.operator.greetings import Greeting, greeting

pytestmark = [pytest.mark.virtual_time, pytest.mark.filterwarnings("default::DeprecationWarning")]

STREAMS = rbac(groups="", resources="pods/exec;pods/attach;pods/portforward", verbs="get;create")
LOGS = rbac(groups="", resources="pods/log", verbs="get")


@pytest.fixture(scope="module")
def models() -> Any:
    # Imported here, because the import takes half a second in each worker that collects this file.
    return pytest.importorskip("kubernetes_asyncio").client


def checking(look: Any, **attributes: Any) -> type[Operator[Greeting]]:
    """Return an operator that writes the result of `look` to `status.text`."""

    async def reconcile(self: Any, greeting: Greeting, ctx: Context) -> None:
        greeting.status.text = await look(greeting, ctx)

    named = {"kind": Greeting, "name": "check", "reconcile": reconcile, "rights": (STREAMS, LOGS)}
    return type("Checking", (Operator,), named | attributes)


async def found(operator: type[Operator[Greeting]], **scripts: Any) -> str:
    """Run the operator with a pod whose sessions run `scripts`; return the `status.text` that it writes."""
    async with operated(operator) as world:
        await create_running_pod(world.cluster)
        for name, script in scripts.items():
            setattr(world.cluster.sessions, name, script)
        obj = await world.create(greeting())
        return (await world.until(obj, lambda it: it.status.text)).status.text


async def test_reconcile_can_use_logs_exec_attach_and_port_forward_of_a_pod():
    async def look(obj: Greeting, ctx: Context) -> str:
        [line] = [line async for line in ctx.logs("web", container="main", tail_lines=1)]
        assert line.startswith("main: ")
        result = await ctx.exec("web", ["cat", "-"], stdin=b"hello")
        async with ctx.attach("web") as attached:
            read = "".join([data.decode() async for _, data in attached])
        pod = Pod(metadata=ObjectMeta(name="web", namespace=obj.metadata.namespace))
        async with ctx.port_forward(pod, 80) as connection:
            await connection.write(b"hello")
            return f"{result.exit_code} {result.stdout.decode()} {read} {(await connection.read()).decode()}"

    async def cat(process: Process) -> int:
        await process.write(await process.read())
        return 4

    async def run(process: Process) -> int:
        await process.write(b"attached")
        return 0

    async def shout(_: dict[str, Any], port: int, session: Session) -> None:
        await session.write(b"%d %s" % (port, (await session.read()).upper()))

    assert await found(checking(look), exec=cat, attach=run, port=shout) == "4 hello attached 80 HELLO"


async def test_reconcile_can_use_models_and_api_classes_of_kubernetes_asyncio(models: Any):
    async def look(obj: Greeting, ctx: Context) -> str:
        metadata = models.V1ObjectMeta(name="child", namespace=obj.metadata.namespace)
        stored = await ctx.apply(models.V1ConfigMap(metadata=metadata, data={"a": "b"}))
        assert isinstance(stored, ConfigMap)
        await ctx.delete(models.V1Secret(metadata=models.V1ObjectMeta(name="old", namespace="default")))
        children = await ctx.children(ConfigMap)
        core, made = models.CoreV1Api(ctx.kubernetes_client()), models.V1ObjectMeta(name="made")
        if await ctx.find(ConfigMap, "made") is None:
            await core.create_namespaced_config_map(obj.metadata.namespace, models.V1ConfigMap(metadata=made))
        assert await ctx.find(ConfigMap, "made") is not None, "the cache has the new object at once"
        return f"{stored.data} {len(children)}"

    rights = (rbac(groups="", resources="configmaps", verbs="create"),)
    operator = checking(look, owns=(Owns(ConfigMap, prune=True), Secret), reads=(ConfigMap,), rights=rights)
    async with operated(operator) as world:
        await world.create(Secret(metadata=ObjectMeta(name="old")))
        obj = await world.create(greeting())
        obj = await world.until(obj, lambda it: it.status.text)
        assert obj.status.text == "{'a': 'b'} 1"
        child = await world.get(ConfigMap, "child")
        assert child.metadata.owner_references[0].uid == obj.metadata.uid
        assert await world.find(Secret, "old") is None
        # The reconcile applied the child, so it is not pruned but restored.
        await world.update(child, lambda it: setattr(it, "data", {"a": "c"}))
        await world.until(child, lambda it: it.data == {"a": "b"})


async def test_manager_kubernetes_client_raises_forbidden_for_a_call_without_a_right(models: Any):
    async with operated(kinds=(Greeting,)) as world:
        core = models.CoreV1Api(world.manager.kubernetes_client())
        with pytest.raises(
            Forbidden, match=r'controller-manager" .* \(tests/unit/operator/test_context_pods\.py:[0-9]+ send'
        ):
            await core.list_namespace(limit=1)
