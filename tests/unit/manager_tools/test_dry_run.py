"""Dry runs of reconciles: a plan shows each write, and stores nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from devcluster import DevCluster
from manager import Context, Operator, rbac
from manager.api import ObjectKey, ObjectMeta
from manager.client import Client
from manager.controller import Controller
from manager.kube.errors import Fenced
from manager.kube.rest_mapping import RestMapper
from manager.operator import add_controller
from manager.process.manager import Manager
from manager.telemetry.metrics import Metrics
from manager.util.program import Program
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Secret
from manager_tools.codegen import custom_resource_definitions
from manager_tools.commands.plan import OUTSIDE, Planned, plan_object, title, unified
from manager_tools.dry_run import IN_A_POD, DryRunTransport
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting, GreetingSpec
from manager_tools.testing import LocalWire
from tests.unit.connected import connected

KEY = ObjectKey("default", "hello")
Do = Callable[[Any, Context], Any]


class Cluster:
    """Control plane with a Greeting, and a manager whose writes are dry runs."""

    def __init__(self, cluster: DevCluster) -> None:
        self.client = cluster.client
        self.sessions = cluster.sessions
        self.wire = LocalWire(cluster)
        given: dict[str, Any] = {"metrics": Metrics(), "rng": random.Random(1)}
        self.transport = DryRunTransport(self.wire, user_agent="test", **given)
        self.manager = Manager(self.transport, program=Program("test", "0"), identity="test", **given)
        self.manager.leadership.ended(OUTSIDE)

    def client_named(self, field_manager: str) -> Client:
        """Return a client of this field manager whose writes are stored."""
        made = connected(self.wire)
        return Client(made.transport, RestMapper(made.transport), made.cache, field_manager=field_manager)

    async def plan(self, do: Do, **members: Any) -> Planned:
        """Plan the reconcile of an operator that calls `do`; `members` are attributes of its class."""
        async with self.controller(do, **members) as controller:
            return await plan_object(controller, KEY, self.transport)

    @asynccontextmanager
    async def controller(self, do: Do, **members: Any) -> AsyncIterator[Controller]:
        """Yield a controller that calls `do`; check at the end that no stored object has changed."""

        class Planner(Operator[Greeting]):
            owns = (ConfigMap,)
            rights = (rbac(groups="hello.example.com", resources="greetings", verbs="patch"),)
            finalizer_first = False

            async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
                await do(greeting, ctx)

        operator = type("Planner", (Planner,), members)
        controller = add_controller(operator(self.manager))
        assert controller is not None
        before = self.versions()
        reading = asyncio.create_task(self.manager.cache.run())
        try:
            await self.manager.cache.wait_synced()
            yield controller
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            assert self.versions() == before

    def versions(self) -> dict[str, str]:
        watched = ("configmaps", "secrets", "events", "greetings.hello.example.com")
        found = {
            f"{resource}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
            for resource in watched
            for each in self.client.list(resource, "default")
            if each["metadata"]["name"] != "kube-root-ca.crt"  # a controller creates it at any time
        }
        for each in self.client.list("deployments.apps", "default"):  # a controller changes their status
            found[each["metadata"]["name"]] = str(each["metadata"]["generation"])
        return found


@asynccontextmanager
async def planning(*objects: tuple[str, dict[str, Any]]) -> AsyncIterator[Cluster]:
    async with await asyncio.to_thread(DevCluster, port=None) as devcluster:
        cluster = Cluster(devcluster)
        for definition in await asyncio.to_thread(custom_resource_definitions, [Greeting], (), None):
            await devcluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", definition)
        await asyncio.sleep(0)
        for resource, obj in (greeting("hello"), *objects):
            await devcluster.client.create(resource, "default", obj)
        yield cluster
        await cluster.transport.aclose()


async def planned_by(do: Do, *objects: tuple[str, dict[str, Any]]) -> Planned:
    async with planning(*objects) as cluster:
        return await cluster.plan(do)


def greeting(name: str) -> tuple[str, dict[str, Any]]:
    made = Greeting(metadata=ObjectMeta(name=name, namespace="default"), spec=GreetingSpec(size=7))
    return "greetings.hello.example.com", made.to_wire()


def config(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


LABELS = {"app": "web"}


def deployment(container: dict[str, Any], **annotations: str) -> Deployment:
    """Return a paused Deployment `web` with zero replicas."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "paused": True, "selector": {"matchLabels": LABELS}, "template": template}
    metadata = ObjectMeta(name="web", namespace="default", labels=LABELS, annotations=annotations)
    return Deployment(metadata=metadata, spec=spec)


def changed(planned: Planned) -> list[str]:
    """Return the changed lines in the diff of the first changed object, sorted."""
    assert planned.ends == ""
    return sorted(line.strip("+- ") for line in list(unified(planned.changes[0]))[2:] if line[0] in "+-")


def shown(planned: Planned) -> str:
    return "\n".join(line for each in planned.changes for line in unified(each))


async def test_plan_lets_the_reconcile_read_a_child_that_it_has_created():
    seen = []

    async def create(greeting: Greeting, ctx: Context) -> None:
        await ctx.apply(config("one", key="first"))
        found = await ctx.find(ConfigMap, "one")
        live = await ctx.client.uncached.get(ConfigMap, ObjectKey("default", "one"))
        assert found is not None
        found.data["key"] = "second"
        seen.extend([live.data, (await ctx.client.patch(found)).data])
        await ctx.write_status()
        greeting.status.size = 7
        ctx.condition("Ready", True, "Done")

    planned = await planned_by(create)
    assert (planned.ends, planned.failed, planned.other) == ("", False, [])
    assert seen == [{"key": "first"}, {"key": "second"}]
    made, own = planned.changes
    assert made.before is None
    text = "\n".join(unified(made))
    assert "+++ planned/v1.ConfigMap.default.one" in text
    assert "+  key: second" in text
    assert "uid: " in text  # in the owner reference
    assert "\n+  uid: " not in text
    assert own.after is not None
    assert own.after["status"]["size"] == 7
    assert "+    reason: Done" in "\n".join(unified(own))


async def test_plan_combines_several_writes_to_one_object():
    async def write(greeting: Greeting, ctx: Context) -> None:
        greeting.metadata.annotations["one"] = "1"
        await ctx.patch()
        ctx.condition("Ready", False, "First")
        await ctx.write_status()
        ctx.condition("Ready", True, "Second")
        await ctx.write_status()
        greeting.metadata.annotations["two"] = "2"
        await ctx.client.patch(greeting, optimistic_lock=True)

    planned = await planned_by(write)
    [own] = planned.changes
    assert own.after is not None
    assert own.after["metadata"]["annotations"] == {"one": "1", "two": "2"}
    assert [each["reason"] for each in own.after["status"]["conditions"]] == ["Second"]


@pytest.mark.parametrize("by", ["created", "applied", "a former manager"])
async def test_plan_shows_removed_fields_but_no_change_of_field_managers(by: str):
    before = {"name": "a", "image": "b", "env": [{"name": "X", "value": "1"}], "workingDir": "/"}

    async def apply(greeting: Greeting, ctx: Context) -> None:
        await ctx.apply(deployment({"name": "a", "image": "c"}, kept="y"), initial=(".spec.paused",))

    async with planning() as cluster:
        client = cluster.client_named("old" if by == "a former manager" else "test-greeting")
        greeting = await client.uncached.get(Greeting, KEY)
        if by == "applied":
            await client.apply(deployment({**before, "image": "a"}, kept="y"), owner=greeting)
        await client.apply(deployment(before, kept="y", old="x"), owner=greeting)
        planned = await cluster.plan(apply, owns=(Deployment,), former_managers=("old",))
    assert not planned.changes[0].renamed
    gone = ["old: x", "env:", "name: X", "value: '1'", "workingDir: /"]
    counted = ["generation: 2", "generation: 3"] if by == "applied" else ["generation: 1", "generation: 2"]
    assert changed(planned) == sorted([*gone, *counted, "image: b", "image: c"])


async def test_plan_shows_that_apply_replaces_a_port_changed_by_another_client():
    container = {"name": "a", "image": "a", "ports": [{"name": "web", "containerPort": 80}]}

    async def apply(greeting: Greeting, ctx: Context) -> None:
        await ctx.apply(deployment({**container, "image": "b"}))

    async with planning() as cluster:
        client = cluster.client_named("test-greeting")
        greeting = await client.uncached.get(Greeting, KEY)
        child = (await client.apply(deployment(container), owner=greeting)).object
        child.spec["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = 8080
        await client.named("other").patch(child)
        planned = await cluster.plan(apply, owns=(Deployment,))
        stored = await client.uncached.get(Deployment, child.key)
    counted = ["generation: 2", "generation: 3"]
    assert changed(planned) == ["containerPort: 80", "containerPort: 8080", *counted, "image: a", "image: b"]
    assert stored.metadata.generation == 2


async def test_plan_hides_an_object_from_the_reconcile_that_has_deleted_it():
    async def delete(greeting: Greeting, ctx: Context) -> None:
        found = await ctx.find(ConfigMap, "old")
        assert found is not None
        assert await ctx.client.delete_if_there(found)
        assert await ctx.find(ConfigMap, "old") is None
        assert await ctx.client.uncached.find(ConfigMap, ObjectKey("default", "old")) is None
        await ctx.client.delete_collection(ConfigMap, namespace="default", label_selector="app=old")

    old, labelled = config("old", a="b"), config("labelled")
    labelled.metadata.labels = {"app": "old"}
    planned = await planned_by(delete, *(("configmaps", each.to_wire()) for each in (old, labelled)))
    assert planned.ends == ""
    names = {each.before["metadata"]["name"] for each in planned.changes if each.before and not each.after}
    assert names == {"old", "labelled"}
    assert "-  a: b" in shown(planned)


async def test_plan_masks_the_values_of_secrets():
    async def write(greeting: Greeting, ctx: Context) -> None:
        secret = await ctx.client.uncached.get(Secret, ObjectKey("default", "known"))
        secret.data["changed"] = "bmV3"
        await ctx.client.patch(secret)
        metadata = ObjectMeta(name="made", namespace="default")
        await ctx.client.create(Secret(metadata=metadata, data={"password": "bWFkZQ=="}))

    last = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"kept":"a2VwdA=="}}'}
    data = {"kept": "a2VwdA==", "changed": "b2xk"}
    known = {"metadata": {"name": "known", "annotations": last}, "data": data}
    text = shown(await planned_by(write, ("secrets", known)))
    assert not any(value in text for value in ("a2VwdA", "b2xk", "bmV3", "bWFkZQ"))
    assert "-  changed: '*** (before)'\n+  changed: '*** (after)'" in text
    assert "+  password: '***'" in text


async def test_plan_ends_when_the_reconcile_enters_ctx_permit_for_an_external_call():
    called = []

    async def call(greeting: Greeting, ctx: Context) -> None:
        greeting.metadata.annotations["noted"] = "yes"
        await ctx.patch()
        async with ctx.permit():
            called.append(greeting)

    async with planning() as cluster:
        planned = await cluster.plan(call)
        with pytest.raises(Fenced):
            cluster.manager.leadership.permit()
    assert (planned.ends, planned.failed, called) == (OUTSIDE, False, [])
    assert "+    noted: 'yes'" in shown(planned)


async def test_plan_of_a_failed_reconcile_shows_the_changes_before_the_failure():
    async def fail(greeting: Greeting, ctx: Context) -> None:
        await ctx.apply(config("one"))
        raise ConnectionError("no answer\x1b[2J")

    planned = await planned_by(fail)
    assert (planned.failed, planned.ends) == (True, "ConnectionError: no answer\x1b[2J")
    assert len(planned.changes) == 1


async def test_plan_ends_when_the_reconcile_would_run_a_command_in_a_pod():
    called = []

    async def run(greeting: Greeting, ctx: Context) -> None:
        await ctx.exec("web", ["rm", "-rf", "/"])

    async with planning() as cluster:
        cluster.sessions.exec = called.append
        planned = await cluster.plan(run)
    assert (planned.ends, planned.failed, called) == (IN_A_POD, False, [])
    assert planned.other == ["CONNECT /api/v1/namespaces/default/pods/web/exec"]


async def test_plan_sends_writes_of_the_kubernetes_asyncio_client_as_dry_runs():
    models = pytest.importorskip("kubernetes_asyncio").client

    async def write(greeting: Greeting, ctx: Context) -> None:
        core = models.CoreV1Api(ctx.kubernetes_client())
        made = models.V1ConfigMap(metadata=models.V1ObjectMeta(name="made"), data={"a": "b"})
        assert (await core.create_namespaced_config_map("default", made)).data == {"a": "b"}

    async with planning() as cluster:
        planned = await cluster.plan(write)
        assert cluster.client.peek("configmaps", "default", "made") is None
    assert not planned.failed
    assert "v1.ConfigMap.default.made" in [title(each) for each in planned.changes]


async def test_plan_reports_a_scale_patch_as_a_request_and_not_as_a_change():
    async def scale(greeting: Greeting, ctx: Context) -> None:
        deployment = await ctx.client.uncached.get(Deployment, ObjectKey("default", "web"))
        await ctx.client.subresource("scale").patch(deployment, {"spec": {"replicas": 3}})
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await cluster.transport.request("POST", path, body=orjson.dumps(review))
        assert orjson.loads(answer)["status"]["allowed"]

    web = deployment({"name": "a", "image": "b"}).to_wire()
    async with planning(("deployments.apps", web)) as cluster:
        planned = await cluster.plan(scale)
        assert cluster.client.peek("deployments.apps", "default", "web")["spec"]["replicas"] == 0
    assert [title(each) for each in planned.changes] == ["hello.example.com.v1.Greeting.default.hello"]
    assert planned.ends == ""
    assert planned.other == ["PATCH /apis/apps/v1/namespaces/default/deployments/web/scale"]
