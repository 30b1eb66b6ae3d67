"""Reconciliation as a whole: the object, its status, conditions, children, finalizer and deletion."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ClassVar

import orjson
import pytest
from pydantic import Field

from manager import Blocked, Context, Operator, Owns, Result, TerminalError, Watch, rbac, webhook
from manager.api import (
    ApiModel,
    Condition,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    Resource,
    controller_reference,
    crd,
    list_map,
)
from manager.cache import Selection
from manager.cache.sink import Sink
from manager.controller import (
    ControllerOptions,
    Predicate,
    any_of,
    generation_changed,
    status_changed,
)
from manager.kube.errors import ServerError
from manager.operator.children import changed_fields
from manager.operator.context import Changed
from manager.operator.rights import rights_of
from manager.operator.rollouts import is_rolled_out
from manager.telemetry.runs import SPARED, ReconcileRecord
from manager.webhook import Refused, forbidden
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Namespace, Secret
from manager_tools.testing import World, operated
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time


class GreetingStatus(ApiModel):
    """Status of a greeting."""

    text: str = ""
    observed_generation: int | None = None
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)


class GreetingSpec(ApiModel):
    """Spec of a greeting."""

    name: str = "you"


@crd()
class Greeting(Resource, group="test.example.com", version="v1", plural="greetings"):
    """A greeting."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


@crd()
class WideGreeting(
    Resource, group="test.example.com", version="v1", plural="widegreetings", namespaced=False
):
    """A greeting to all."""

    spec: GreetingSpec = Field(default_factory=GreetingSpec)
    status: GreetingStatus = Field(default_factory=GreetingStatus)


Act = Callable[["GreetingOperator", Greeting, Context], Awaitable[Result | None]]


class GreetingOperator(Operator[Greeting]):
    """Operator whose reconcile calls the test's function."""

    owns = (Secret,)
    conditions = ("Available", "Progressing", "Degraded")
    act: ClassVar[Any] = None

    def setup(self) -> None:
        self.seen: list[str] = []
        self.forgotten: list[str] = []
        LAST.append(self)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> Result | None:
        self.seen.append(greeting.metadata.name)
        return await type(self).act(self, greeting, ctx)  # type: ignore[no-any-return]

    async def gone(self, key: ObjectKey) -> None:
        self.forgotten.append(key.name)


LAST: list[GreetingOperator] = []


def doing(act: Act, **attributes: Any) -> type[GreetingOperator]:
    """Return an operator whose reconcile calls `act`."""
    kept = {"act": staticmethod(act), "kind": Greeting, "name": "greeting", **attributes}
    return type("Doing", (GreetingOperator,), kept)


def greeting(name: str = "hello", **metadata: Any) -> Greeting:
    return Greeting(metadata=ObjectMeta(name=name, **metadata))


def secret(name: str, namespace: str = "default") -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace=namespace), type="Opaque")


def said(obj: Greeting) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in obj.status.conditions}


def writes(world: World) -> int:
    return world.cluster.store.version


async def recorded(world: World, enough: Callable[[list[ReconcileRecord]], bool]) -> list[ReconcileRecord]:
    """Wait for enough reconcile records of the greeting, and return them."""
    runs: list[ReconcileRecord] = []
    while not runs or not enough(runs):
        await asyncio.sleep(0.02)
        runs = world.manager.history.of("greeting").of(ObjectKey("default", "hello"))
    return runs


async def settled(world: World) -> int:
    """Wait until no more writes arrive; return the number of writes."""
    version = -1
    while version != writes(world):
        version = writes(world)
        await asyncio.sleep(0.05)
    return version


async def test_status_is_written_once_with_the_generation_of_its_reconcile():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        assert ctx.object is obj
        obj.status.text = "Hello, "
        obj.status.text += obj.spec.name
        ctx.condition("Available", True, "Greeted", "it is greeted")

    async with operated(doing(act), objects=[greeting()]) as world:
        found = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        assert (found.status.text, found.status.observed_generation) == ("Hello, you", 1)
        [condition] = found.status.conditions
        assert condition.observed_generation == 1
        assert condition.last_transition_time is not None
        before = await settled(world)
        LAST[-1].enqueue(found.key)
        await asyncio.sleep(0.05)
        assert len(LAST[-1].seen) == 2
        assert writes(world) == before  # an unchanged status causes no write


async def test_condition_of_another_writer_stays_when_it_comes_during_a_reconcile():
    theirs = {"type": "Theirs", "status": "True", "reason": "Set", "message": "", "lastTransitionTime": NOW}

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if not obj.status.conditions:
            status = {"status": {"conditions": [theirs]}}
            api = WORLD[-1].cluster.client
            await api.patch("greetings.test.example.com", "default", "hello", status, subresource="status")
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act)) as world:
        WORLD.append(world)
        obj = await world.create(greeting())
        found = await world.until(obj, lambda it: "Available" in said(it))
        assert said(found) == {"Theirs": ("True", "Set"), "Available": ("True", "Greeted")}


async def test_write_status_keeps_the_status_that_the_operator_has_in_hand():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        status, conditions, metadata = obj.status, obj.status.conditions, obj.metadata
        status.text = "first"
        ctx.condition("Available", True, "Greeted")
        metadata.annotations["kept"] = "as it is sent later"
        await ctx.write_status()
        assert (obj.status is status, status.conditions is conditions) == (True, True)
        assert obj.metadata is metadata
        status.text = "last"
        conditions[0].message = "changed later"
        await ctx.patch()
        metadata.annotations["more"] = "yes"
        await ctx.patch()

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        found = await world.until(obj, lambda it: it.status.text == "last")
        assert [each.message for each in found.status.conditions] == ["changed later"]
        assert found.metadata.annotations == {"kept": "as it is sent later", "more": "yes"}


@pytest.mark.parametrize("write", ["write_status", "patch"])
async def test_write_in_a_reconcile_takes_what_others_have_written_meanwhile(write: str):
    theirs = {"type": "Theirs", "status": "True", "reason": "Set", "message": "", "lastTransitionTime": NOW}
    path = "greetings.test.example.com", "default", "hello"

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if "Theirs" not in said(obj):
            api = WORLD[-1].cluster.client
            await api.patch(*path, {"status": {"conditions": [theirs]}}, subresource="status")
            await api.patch(*path, {"spec": {"name": "Jack"}, "metadata": {"labels": {"a": "b"}}})
        obj.metadata.annotations["ours"] = obj.status.text = "set"
        await getattr(ctx, write)()
        await ctx.patch()
        await ctx.write_status()
        assert (obj.spec.name, obj.metadata.labels) == ("Jack", {"a": "b"})
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act)) as world:
        WORLD.append(world)
        obj = await world.create(greeting())
        found = await world.until(obj, lambda it: "Available" in said(it))
        assert said(found) == {"Theirs": ("True", "Set"), "Available": ("True", "Greeted")}
        assert (found.spec.name, found.metadata.labels, found.metadata.annotations) == (
            "Jack",
            {"a": "b"},
            {"ours": "set"},
        )


class PartSpec(ApiModel):
    """The wanted size and paint."""

    size: int = 1
    paint: GreetingSpec = Field(default_factory=GreetingSpec)


@crd(status=False)
class Part(Resource, group="test.example.com", version="v1", plural="parts"):
    """A child with defaults."""

    spec: PartSpec = Field(default_factory=PartSpec)


async def test_apply_claims_no_field_of_a_typed_child_that_was_not_set():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(Part(metadata=ObjectMeta(name="part", namespace="default"), spec=PartSpec(size=3)))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Part,)), kinds=[Part]) as world:
        obj = await world.create(greeting())
        await world.until(obj, lambda it: it.status.text == "you")
        part = await world.get(Part, "part")
        assert (part.spec.size, part.spec.paint.name) == (3, "you")
        [entry] = part.to_wire()["metadata"]["managedFields"]
        assert entry["fieldsV1"]["f:spec"] == {".": {}, "f:size": {}}
        await world.update(part, lambda it: setattr(it.spec.paint, "name", "Jack"))
        await world.update(obj, lambda it: setattr(it.spec, "name", "Jill"))
        await world.until(obj, lambda it: it.status.text == "Jill")
        assert (await world.get(Part, "part")).spec.paint.name == "Jack"
        assert "Restored" not in await world.events(obj)


NOW = "2026-11-22T10:00:00Z"
WORLD: list[World] = []


@pytest.mark.parametrize(
    "other", [None, {}, {"text": None, "observedGeneration": None}, {"text": "what an earlier process told"}]
)
@pytest.mark.parametrize("on", [Operator.on, any_of(generation_changed, status_changed)])
async def test_status_is_written_again_when_another_writer_has_changed_it(on: Predicate, other: Any):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "Hello"

    async with operated(doing(act, on=staticmethod(on)), objects=[greeting()]) as world:
        found = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await settled(world)
        api = world.cluster.client
        path = "greetings.test.example.com", "default", "hello"
        change = {"status": other if other is None else dict(other)}  # the server keeps what it is given
        if other == {}:
            bare = {**await api.get(*path), **change}
            await api.update(path[0], path[1], bare, subresource="status")
        else:
            await api.patch(*path, change, subresource="status")
        found = await world.until(found, lambda it: it.status.text == "Hello")
        assert found.status.observed_generation == 1
        await settled(world)
        assert len(LAST[-1].seen) == 2


async def test_status_is_written_again_when_it_changes_during_the_reconcile():
    entered, going_on = asyncio.Event(), asyncio.Event()
    going_on.set()

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "Hello"
        entered.set()
        await going_on.wait()

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        await settled(world)
        entered.clear()
        going_on.clear()
        LAST[-1].enqueue(obj.key)
        await entered.wait()
        path = "greetings.test.example.com", "default", "hello"
        await world.cluster.client.patch(*path, {"status": {"text": "Goodbye"}}, subresource="status")
        await asyncio.sleep(1)
        going_on.set()
        await world.until(obj, lambda it: it.status.text == "Hello", timeout=5.0)
        await settled(world)
        assert len(LAST[-1].seen) == 3


@pytest.mark.parametrize("cluster_scoped", [False, True])
async def test_on_predicate_ignores_foreign_status_writes_unless_it_names_them(cluster_scoped: bool):
    entered, going_on = asyncio.Event(), asyncio.Event()
    going_on.set()

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        entered.set()
        await going_on.wait()

    kind = WideGreeting if cluster_scoped else Greeting
    attributes = {"on": staticmethod(generation_changed), "kind": kind, "owns": ()}
    async with operated(doing(act, **attributes)) as world:
        namespace = "" if cluster_scoped else "default"
        path = f"{kind.plural}.test.example.com", namespace, "hello"
        obj = await world.create(kind(metadata=ObjectMeta(name="hello")))
        await settled(world)
        api = world.cluster.client
        await api.patch(*path, {"status": {"text": "Hello"}}, subresource="status")
        await settled(world)
        assert len(LAST[-1].seen) == 1
        entered.clear()
        going_on.clear()
        await world.update(obj, lambda it: setattr(it.spec, "name", "Jack"))
        await entered.wait()
        await api.patch(*path, {"status": {"text": "Goodbye"}}, subresource="status")
        await asyncio.sleep(1)
        going_on.set()
        await settled(world)
        assert len(LAST[-1].seen) == 2


async def test_on_predicate_never_hides_a_deletion_from_cleanup():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        pass

    wanted = {"on": staticmethod(lambda event: "a" in event.meta.labels), "cleanup": cleanup}
    async with operated(doing(act, **wanted)) as world:
        obj = await world.create(greeting(labels={"a": "b"}))
        await world.until(obj, lambda it: it.metadata.finalizers)
        await world.update(obj, lambda it: it.metadata.labels.clear())
        await world.delete(obj)
        await world.until_gone(obj, timeout=10)


async def test_condition_event_is_sent_once_for_each_change():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        ctx.condition("Available", True, "Greeted", f"{obj.spec.name} is greeted", event="Normal")

    async with operated(doing(act), objects=[greeting()]) as world:
        found = await world.until(greeting(namespace="default"), said)
        LAST[-1].enqueue(found.key)
        await asyncio.sleep(0.05)
        assert await world.events(found) == ["Greeted"]
        found = await world.update(found, lambda it: setattr(it.spec, "name", "me"))
        await world.until(found, lambda it: it.status.observed_generation == 2)
        assert await world.events(found) == ["Greeted", "Greeted"]


async def test_condition_message_is_truncated_when_it_is_too_long():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        raise Blocked("Refused", "it is refused: " + "x" * 40_000)

    async with operated(doing(act), objects=[greeting()]) as world:
        found = await world.until(greeting(namespace="default"), said)
        [message] = {each.message for each in found.status.conditions if each.message}
        assert message.startswith("it is refused: xxx")
        assert len(message) < 1_100


async def test_context_event_once_written_is_not_sent_when_the_reconcile_fails():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        ctx.condition("Available", True, "Greeted", "it is greeted", event="Normal")
        ctx.event("Later", "in its time", once_written=True)
        if len(operator.seen) == 1:
            raise ServerError(500, "InternalError", "not now")

    async with operated(doing(act), objects=[greeting()]) as world:
        found = await world.until(greeting(namespace="default"), said)
        assert await world.events(found) == ["Greeted", "Later"]


async def test_reconcile_is_not_called_for_a_deleted_or_deleting_object():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        assert obj.metadata.deletion_timestamp is None

    held = greeting("held", finalizers=["example.com/hold"])
    async with operated(doing(act), objects=[greeting(), held]) as world:
        await settled(world)
        operator = LAST[-1]
        assert sorted(operator.seen) == ["held", "hello"]
        await world.delete(greeting(namespace="default"))
        await world.delete(greeting("held", namespace="default"))
        await settled(world)
        assert sorted(operator.seen) == ["held", "hello"]
        assert set(operator.forgotten) == {"held", "hello"}


async def test_taken_name_is_reported_and_used_when_it_becomes_free():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "tried"
        await ctx.apply(secret("child"))
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act), objects=[secret("child")]) as world:
        obj = await world.create(greeting())
        obj = await world.until(obj, said)
        assert obj.status.text == "tried"
        assert said(obj) == {
            "Available": ("False", "NameTaken"),
            "Progressing": ("False", "NameTaken"),
            "Degraded": ("True", "NameTaken"),
        }
        assert await world.events(obj) == ["NameTaken"]
        await world.client.delete(secret("child"))
        obj = await world.until(obj, lambda it: said(it)["Available"] == ("True", "Greeted"))
        assert await world.events(obj) == ["NameTaken", "Created"]


async def test_taken_name_outside_the_cache_is_used_when_it_becomes_free():
    """Assert a retry without an event for the name's release."""

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        child = secret("child")
        child.metadata.labels = {"ours": "yes"}
        await ctx.apply(child)
        ctx.condition("Available", True, "Greeted")

    owns = (Owns(Secret, selection=Selection.of(label_selector="ours=yes")),)
    async with operated(doing(act, owns=owns), objects=[secret("child")]) as world:
        obj = await world.create(greeting())
        obj = await world.until(obj, lambda it: said(it).get("Degraded") == ("True", "NameTaken"))
        await world.client.delete(secret("child"))
        await world.until(obj, lambda it: said(it)["Available"] == ("True", "Greeted"), timeout=60)


async def test_child_of_an_earlier_owner_makes_the_object_progressing_and_not_degraded():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child"))
        ctx.condition("Available", True, "Greeted")

    left = secret("child")
    left.metadata.namespace = "default"
    earlier = ObjectMeta(name="hello", namespace="default", uid="of-an-earlier-one")
    left.metadata.owner_references = [controller_reference(Greeting(metadata=earlier), left.metadata)]
    left.metadata.finalizers = ["example.com/held"]  # or it would be collected at once
    async with operated(doing(act), objects=[left]) as world:
        obj = await world.create(greeting())
        obj = await world.until(obj, said)
        assert said(obj)["Progressing"] == ("True", "LeftOver")
        assert said(obj)["Degraded"][0] == "False"
        # The garbage collector begins, and the finalizer holds the child.
        await world.until(obj, lambda it: "waits for example.com/held" in it.status.conditions[0].message)
        await world.update(await world.get(Secret, "child"), lambda it: it.metadata.finalizers.clear())
        obj = await world.until(obj, lambda it: said(it)["Available"] == ("True", "Greeted"))
        assert await world.events(obj) == ["Created"]


async def test_log_has_a_line_for_each_write_with_fields_and_their_managers(log_lines: LogLines):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        child = secret("child")
        if obj.spec.name == "nobody":
            for each in await ctx.children(Secret):
                await ctx.delete(each)
        else:
            child.metadata.labels = {"for": obj.spec.name}
            await ctx.apply(child)
        obj.status.text = obj.spec.name

    def deeds() -> list[tuple[str, Any, Any]]:
        return [
            (line["event"], line.get("fields"), line.get("set_by"))
            for line in log_lines
            if line["log_level"] == "info" and "reason" in line
        ]

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        child = await world.get(Secret, "child")
        await world.update(child, lambda it: it.metadata.labels.update({"for": "all"}))
        await world.until(child, lambda it: it.metadata.labels["for"] == "you")
        await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
        await world.until(child, lambda it: it.metadata.labels["for"] == "me")
        assert deeds() == [
            ("Created Secret child", None, None),
            (
                "Put Secret child back as it should be: test-test had set .metadata.labels.for",
                [".metadata.labels.for"],
                ["test-test"],
            ),
            ("Updated Secret child", [".metadata.labels.for"], None),
        ]
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until(obj, lambda it: it.status.text == "nobody")
        assert ("Deleted Secret child", None, None) in deeds()


@pytest.mark.parametrize("by_us", [False, True], ids=["another client", "another process of ours"])
@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
async def test_context_apply_reports_restored_only_if_another_client_changed_the_child(
    applied: bool, by_us: bool
):
    asked: list[str] = []

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        source = await ctx.find(ConfigMap, "source")
        child = secret("child")
        child.metadata.labels = {"from": source.data["a"] if source else ""}

        def changed(before: Secret, after: Secret) -> tuple[str, str]:
            asked.append(after.metadata.labels["from"])
            return "Copied", "the source has changed"

        await ctx.apply(child, changed=changed)

    watches = (Watch(ConfigMap, enqueue=lambda meta, ours: [ObjectKey("default", "hello")]),)
    source = ConfigMap(metadata=ObjectMeta(name="source", namespace="default"), data={"a": "1"})
    async with operated(doing(act, watches=watches), objects=[source, greeting()]) as world:
        child = await world.until(secret("child"), lambda it: it.metadata.labels["from"] == "1")
        if applied:
            await world.update(source, lambda it: it.data.update(a="2"))
            await world.until(child, lambda it: it.metadata.labels["from"] == "2")
        last = "2" if applied else "1"
        client = world.manager.client.named("greeting" if by_us else "another")
        theirs = secret("child")
        theirs.metadata.labels = {"from": "another"}
        await client.apply(theirs, owner=await world.get(Greeting, "hello"))
        await world.until(child, lambda it: it.metadata.labels["from"] == last)
        await settled(world)
        obj = await world.get(Greeting, "hello")
        assert asked == (["2"] if applied else []) + ([last] if by_us else [])
        assert ("Restored" in await world.events(obj)) is not by_us


def deployment(**changed: Any) -> Deployment:
    """Return a child with lists and an immutable selector."""
    labels = {"app": "hello", **({} if changed.get("fewer") else {"old": "1"})}
    port = {"name": "web", "containerPort": changed.get("port", 80)}
    container = {"name": "main", "image": changed.get("image", "image:1"), "ports": [port]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return Deployment(metadata=ObjectMeta(name="child", namespace="default"), spec=spec)


@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
async def test_apply_changes_nothing_when_the_server_refuses_it(applied: bool):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        wanted = {"you": {}, "again": {"image": "image:2"}, "refused": {"image": "image:3", "fewer": True}}
        await ctx.apply(deployment(**wanted[obj.spec.name]))
        obj.status.text = obj.spec.name

    def state(child: Deployment) -> tuple[Any, ...]:
        entries = orjson.loads(child.origin or b"")["metadata"]["managedFields"]
        ours = [(each["manager"], each["fieldsV1"]) for each in entries if "subresource" not in each]
        return child.metadata.generation, child.spec, ours

    async with operated(doing(act, owns=(Deployment,)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        if applied:
            await world.update(obj, lambda it: setattr(it.spec, "name", "again"))
            await world.until(obj, lambda it: it.status.text == "again")
        uncached = world.client.uncached
        before = state(await uncached.get(Deployment, ObjectKey("default", "child")))
        await world.update(obj, lambda it: setattr(it.spec, "name", "refused"))
        runs = await recorded(world, lambda runs: len([run for run in runs if run.error_type]) > 1)
        assert {run.error_type for run in runs if run.error} == {"Invalid"}
        assert state(await uncached.get(Deployment, ObjectKey("default", "child"))) == before
        sent = [each for run in runs if run.error for each in run.requests]
        assert not [each.verb for each in sent if each.verb == "patch" and "deployments" in each.path]


@pytest.mark.parametrize("spoiled", [False, True], ids=["", "and something else is refused"])
async def test_apply_replaces_a_foreign_change_of_a_list_that_blocks_it(spoiled: bool):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name != "nobody":
            await ctx.apply(deployment(fewer=obj.spec.name == "refused"))
        obj.status.text = obj.spec.name

    def another_port(child: Deployment) -> None:
        child.spec["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = 8080

    async with operated(doing(act, owns=(Deployment,)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until(obj, lambda it: it.status.text == "nobody")
        child = await world.get(Deployment, "child")
        generation = (await world.update(child, another_port)).metadata.generation
        await world.update(obj, lambda it: setattr(it.spec, "name", "refused" if spoiled else "you"))
        if spoiled:
            await recorded(world, lambda runs: any(run.error_type == "Invalid" for run in runs))
            assert (await world.get(Deployment, "child")).metadata.generation == generation
            return
        child = await world.until(child, lambda it: it.metadata.generation != generation)
        [container] = child.spec["template"]["spec"]["containers"]
        assert [each["containerPort"] for each in container["ports"]] == [80]


class TestAListThatAnotherClientHasExtended:
    """The repair of a refused apply: one patch that the server has accepted as a dry run, or nothing."""

    def operator(self, act: Act, refused: list[str] | None = None) -> type[GreetingOperator]:
        guard = webhook.Admission(Deployment)

        async def check(operator: GreetingOperator, old: Deployment, child: Deployment, _: Any) -> None:
            if refused is not None and child.metadata.labels.get("tier") == "refused":
                refused.append("asked")
                raise Refused(forbidden("metadata.labels[tier]", "no such tier"))

        return doing(act, owns=(Deployment,), guard=guard, check=guard.validate_update(check))

    def wanted(self, name: str) -> Deployment:
        child = deployment()
        [container] = child.spec["template"]["spec"]["containers"]
        child.metadata.labels["tier"] = name
        if name == "you":
            container["env"] = [{"name": "OLD", "value": "1"}]
            child.spec["minReadySeconds"] = 7
        return child

    @staticmethod
    def extend(child: Deployment) -> None:
        """Rename a key of our item, and add items of another client to this list and another one."""
        template = child.spec["template"]["spec"]
        template["containers"][0]["ports"][0]["containerPort"] = 8080
        template["containers"].insert(0, {"name": "sidecar", "image": "sidecar:1"})

    async def started(self, world: World) -> tuple[Greeting, Deployment]:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until(obj, lambda it: it.status.text == "nobody")
        await world.update(await world.get(Deployment, "child"), self.extend)
        await asyncio.sleep(60)  # its controller has written its status by then
        return obj, await world.get(Deployment, "child")

    async def act(self, operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name != "nobody":
            await ctx.apply(self.wanted(obj.spec.name))
        obj.status.text = obj.spec.name

    async def test_apply_changes_our_items_and_keeps_those_of_another_client(self):
        async with operated(self.operator(self.act), objects=[greeting()]) as world:
            obj, child = await self.started(world)
            await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
            await world.until(obj, lambda it: it.status.text == "me")
            found = await world.client.uncached.get(Deployment, child.key)
            assert found.metadata.generation == (child.metadata.generation or 0) + 1, "it is one change"
            sidecar, container = found.spec["template"]["spec"]["containers"]
            assert (sidecar["name"], container["ports"][0]["containerPort"]) == ("sidecar", 80)
            # No longer wanted, and removed by the same patch.
            assert "env" not in container
            assert not found.spec.get("minReadySeconds")
            entries = orjson.loads(found.origin or b"")["metadata"]["managedFields"]
            ours = [each for each in entries if each["manager"].startswith("test-greeting")]
            assert [each["operation"] for each in ours] == ["Apply"]
            assert (await world.events(obj))[-1] == "Updated"
            await world.update(obj, lambda it: setattr(it.spec, "name", "you"))
            await world.until(obj, lambda it: it.status.text == "you")
            await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
            await world.until(obj, lambda it: it.status.text == "me")
            found = await world.client.uncached.get(Deployment, child.key)
            assert "env" not in found.spec["template"]["spec"]["containers"][1], "nobody else owns it"

    async def test_apply_restores_our_item_when_the_object_is_wanted_unchanged(self):
        async with operated(self.operator(self.act), objects=[greeting()]) as world:
            obj, _ = await self.started(world)
            await world.update(obj, lambda it: setattr(it.spec, "name", "you"))
            await world.until(obj, lambda it: it.status.text == "you")
            await asyncio.sleep(1)
            [event] = [
                each
                for each in world.cluster.client.list("events", "default")
                if each["reason"] == "Restored"
            ]
            port = '.spec.template.spec.containers[name="main"].ports[containerPort=8080,protocol="TCP"]'
            assert event["message"] == f"Put Deployment child back as it should be: test-test had set {port}"

    async def test_apply_tries_the_repair_once_when_the_server_refuses_the_rest(self):
        asked: list[str] = []
        async with operated(self.operator(self.act, asked), objects=[greeting()]) as world:
            obj, child = await self.started(world)
            before = (await world.client.uncached.get(Deployment, child.key)).origin
            await world.update(obj, lambda it: setattr(it.spec, "name", "refused"))
            failed = await recorded(world, lambda runs: len([run for run in runs if run.error_type]) > 3)
            assert (await world.client.uncached.get(Deployment, child.key)).origin == before
            assert asked == ["asked"]
            runs = [run for run in failed if run.error]
            sent = [[each.verb for each in run.requests if "deployments" in each.path] for run in runs]
            tried = [
                "get",
                "apply, dry run",
                "patch, dry run",
            ]  # the latter shows the removal of our own fields
            assert sent[0] == [*tried, "get", "patch, dry run"]
            assert all(each == tried for each in sent[1:])
            assert all("no such tier" in run.error for run in runs)
            # A policy may have changed after some time.
            await asyncio.sleep(1500)
            assert 1 < len(asked) < 6

    @pytest.mark.parametrize("image", ["", "image:2"])
    async def test_apply_sends_no_repair_when_the_server_refuses_our_own_items(self, image: str):
        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = deployment(image="image:1" if obj.spec.name == "you" else image)
            if obj.spec.name != "you":
                child.spec["template"]["spec"]["containers"].append({"name": "main", "image": "image:1"})
                child.spec["template"]["spec"]["containers"][-1]["name"] = "Not A Name"
            await ctx.apply(child)
            obj.status.text = obj.spec.name

        async with operated(doing(act, owns=(Deployment,)), objects=[greeting()]) as world:
            obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
            await settled(world)
            key = ObjectKey("default", "child")
            before = (await world.client.uncached.get(Deployment, key)).origin
            await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
            failed = await recorded(world, lambda runs: len([run for run in runs if run.error_type]) > 1)
            assert (await world.client.uncached.get(Deployment, key)).origin == before
            sent = [each for run in failed if run.error for each in run.requests]
            assert "patch" not in [each.verb for each in sent if "deployments" in each.path]


class TestAChildThatIsChangedTooOften:
    """A child that is changed once a minute at last, as object, Event, metric and log say."""

    def gauge(self, world: World, reason: str) -> float:
        [family] = world.manager.metrics.unstable_children.collect()
        return sum(each.value for each in family.samples if each.labels["reason"] == reason)

    async def changes(self, world: World, seconds: float) -> int:
        """Return the number of changes of the child within `seconds`."""
        before = await world.get(Secret, "child")
        await asyncio.sleep(seconds)
        after = await world.get(Secret, "child")
        return int(after.metadata.annotations["n"]) - int(before.metadata.annotations["n"])

    async def test_child_changes_slow_down_when_each_reconcile_wants_it_differently(
        self, log_lines: LogLines
    ):
        count = itertools.count(1)
        calm = False

        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            child.metadata.annotations = {"n": "0" if calm else str(next(count))}
            await ctx.apply(child)
            ctx.condition("Available", True, "Greeted")

        async with operated(doing(act), objects=[greeting()]) as world:
            obj = greeting(namespace="default")
            await world.until(
                obj, lambda it: said(it).get("ChildrenStable") == ("False", "WantedDifferently")
            )
            assert 10 <= next(count) < 20
            await asyncio.sleep(300)
            # The event of each change has it reconciled once more, and then nothing is changed.
            assert await self.changes(world, 600) in range(2 * 9, 2 * 13)
            assert self.gauge(world, "WantedDifferently") == 1
            obj = await world.get(Greeting, "hello")
            [condition] = [each for each in obj.status.conditions if each.type == "ChildrenStable"]
            assert "wants Secret child differently, at .metadata.annotations.n" in condition.message
            events = await world.events(obj)
            assert events.count("WantedDifferently") == 1, "the others are counted"
            assert "Restored" not in events
            warned = [line for line in log_lines if line["event"] == "child is changed too often"]
            assert warned[0]["fields"] == [".metadata.annotations.n"]
            calm = True
            await world.until(obj, lambda it: said(it)["ChildrenStable"] == ("True", "AsWanted"), timeout=300)
            assert self.gauge(world, "WantedDifferently") == 0

    async def test_children_stable_names_the_other_manager_that_changes_a_child_in_turn(self):
        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            child.metadata.labels = {"for": obj.spec.name}
            await ctx.apply(child)
            ctx.condition("Available", True, "Greeted")

        async def fight(world: World) -> None:
            other = world.client.named("rival")
            while True:
                child = await other.uncached.get(Secret, ObjectKey("default", "child"))
                if child.metadata.labels["for"] != "me":
                    child.metadata.labels["for"] = "me"
                    child.metadata.annotations["n"] = str(int(child.metadata.annotations.get("n", "0")) + 1)
                    await other.patch(child)
                await asyncio.sleep(0.05)

        async with operated(doing(act), objects=[greeting()]) as world:
            obj = await world.until(greeting(namespace="default"), said)
            async with asyncio.TaskGroup() as group:
                rival = group.create_task(fight(world))
                obj = await world.until(obj, lambda it: "ChildrenStable" in said(it))
                assert said(obj)["ChildrenStable"] == ("False", "ChangedInTurn")
                [told] = [each.message for each in obj.status.conditions if each.type == "ChildrenStable"]
                assert "test-rival had set .metadata.labels.for" in told
                await asyncio.sleep(300)
                assert await self.changes(world, 600) in range(9, 13)
                assert self.gauge(world, "ChangedInTurn") == 1
                assert "ChangedInTurn" in await world.events(obj)
                rival.cancel()
            await world.until(obj, lambda it: said(it)["ChildrenStable"][0] == "True", timeout=300)
            assert (await world.get(Secret, "child")).metadata.labels["for"] == "you"

    async def test_child_slowed_down_is_changed_at_once_when_the_spec_changes(self):
        count = itertools.count(1)

        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            child.metadata.annotations = {"n": str(next(count)) if obj.spec.name == "you" else "calm"}
            await ctx.apply(child)
            ctx.condition("Available", True, "Greeted")

        async with operated(doing(act), objects=[greeting()]) as world:
            obj = greeting(namespace="default")
            obj = await world.until(obj, lambda it: "ChildrenStable" in said(it))
            await asyncio.sleep(300)
            await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
            obj = await world.until(obj, lambda it: said(it)["ChildrenStable"][0] == "True", timeout=5)
            assert (await world.get(Secret, "child")).metadata.annotations["n"] == "calm"

    async def test_children_stable_reports_a_child_whose_kind_is_only_watched(self):
        count = itertools.count(1)

        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = ConfigMap(metadata=ObjectMeta(name="child", namespace="default"))
            child.metadata.labels = {"greeting": "hello"}
            child.metadata.annotations = {"n": str(next(count))}
            await ctx.apply(child)

        watches = (Watch(ConfigMap, label="greeting"),)
        rights = (rbac(groups="", resources="configmaps", verbs="*"),)
        async with operated(doing(act, watches=watches, rights=rights), objects=[greeting()]) as world:
            await world.until(greeting(namespace="default"), lambda it: "ChildrenStable" in said(it))
            assert next(count) < 20

    async def test_children_created_without_end_block_the_object(self):
        count = itertools.count(1)

        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"child-{next(count)}", namespace="default")))

        async with operated(doing(act, owns=(ConfigMap,)), objects=[greeting()]) as world:
            obj = await world.until(
                greeting(namespace="default"),
                lambda it: said(it).get("Available", ("", ""))[1] == "CreatedWithoutEnd",
                timeout=40,
            )
            message = obj.status.conditions[0].message
            assert message.startswith("300 reconciles in a minute have created a ConfigMap each")
            assert self.gauge(world, "CreatedWithoutEnd") == 1
            assert next(count) < 310

    async def test_context_patch_is_slowed_down_where_each_reconcile_changes_the_metadata(self):
        count = itertools.count(1)

        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            obj.metadata.annotations["n"] = str(next(count))
            await ctx.patch()

        async with operated(doing(act), objects=[greeting()]) as world:
            await world.until(
                greeting(namespace="default"),
                lambda it: said(it).get("Available", ("", ""))[1] == "PatchedWithoutEnd",
                timeout=40,
            )
            assert next(count) < 310

    async def test_child_is_not_slowed_down_when_a_watched_object_changes_it(self):
        async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
            child = secret("child")
            source = await ctx.find(ConfigMap, "source")
            child.metadata.annotations = {"n": "0" if source is None else source.metadata.annotations["n"]}
            await ctx.apply(child)

        watches = (Watch(ConfigMap, label="greeting"),)
        async with operated(doing(act, watches=watches), objects=[greeting()]) as world:
            named = ObjectMeta(name="source", labels={"greeting": "hello"}, annotations={"n": "0"})
            source = await world.create(ConfigMap(metadata=named))
            child = await world.until(secret("child"), lambda it: it.metadata.annotations)
            for number in range(1, 50):
                source = await world.update(
                    source, lambda it, n=str(number): it.metadata.annotations.update(n=n)
                )
                await world.until(
                    child, lambda it, n=str(number): it.metadata.annotations["n"] == n, timeout=1
                )
            assert self.gauge(world, "WantedDifferently") == 0


async def test_rollouts_wait_for_each_other_when_another_version_changes_the_children():
    image = "image:1"

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        child = deployment(image=obj.spec.name if obj.spec.name != "you" else image)
        child.metadata.name, child.spec["replicas"] = obj.metadata.name, 1
        await ctx.apply(child)
        obj.status.text = image

    async def rolling(world: World) -> list[str]:
        """Return the names of children with the new image whose rollout is incomplete."""
        children = await world.client.uncached.list(Deployment, namespace="default")
        new = [each for each in children if image == each.spec["template"]["spec"]["containers"][0]["image"]]
        return [each.metadata.name for each in new if not is_rolled_out(each)]

    names = [f"hello-{number}" for number in range(6)]
    options = ControllerOptions(max_concurrent_rollouts=2)
    operator = doing(act, owns=(Deployment,), options=options)
    async with operated(operator, objects=[greeting(name) for name in names]) as world:
        for name in names:
            child = Deployment(metadata=ObjectMeta(name=name, namespace="default"), spec={})
            await world.until(child, is_rolled_out)
        image = "image:2"
        for name in names:
            LAST[-1].enqueue(ObjectKey("default", name))
        most = waited = 0
        for _ in range(200):
            most = max(most, len(await rolling(world)))
            [family] = world.manager.metrics.rollouts_waiting.collect()
            waited = max(waited, *(int(each.value) for each in family.samples))
            await asyncio.sleep(0.02)
        assert most == 2
        assert waited > 1
        for child in await world.client.uncached.list(Deployment, namespace="default"):
            assert child.spec["template"]["spec"]["containers"][0]["image"] == image
            assert is_rolled_out(child)


async def test_rollouts_of_others_do_not_delay_a_change_of_the_spec():
    image = "image:1"

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        # Nothing of the first one is ever available.
        child = deployment(image=obj.spec.name if obj.spec.name != "you" else image)
        child.metadata.name, child.spec["replicas"] = obj.metadata.name, 1
        if obj.metadata.name == "first" and image == "image:2":
            child.spec["template"]["spec"]["nodeSelector"] = {"no": "node"}
        await ctx.apply(child)

    operator = doing(act, owns=(Deployment,), options=ControllerOptions(max_concurrent_rollouts=1))
    async with operated(operator, objects=[greeting("first"), greeting("second")]) as world:
        children = {
            name: Deployment(metadata=ObjectMeta(name=name, namespace="default"), spec={})
            for name in ("first", "second")
        }
        for child in children.values():
            await world.until(child, is_rolled_out)
        image = "image:2"
        for name in children:
            LAST[-1].enqueue(ObjectKey("default", name))
            await asyncio.sleep(5)
        stays = await world.get(Deployment, "second")
        assert stays.spec["template"]["spec"]["containers"][0]["image"] == "image:1"
        await world.update(
            greeting("second", namespace="default"), lambda it: setattr(it.spec, "name", "image:3")
        )
        await world.until(
            stays, lambda it: it.spec["template"]["spec"]["containers"][0]["image"] == "image:3", timeout=5
        )


def test_changed_fields_names_wanted_and_removed_fields_only():
    before, after, wanted = secret("child"), secret("child"), secret("child")
    before.metadata.labels = {"for": "all", "old": "a", "theirs": "1"}
    after.metadata.labels = wanted.metadata.labels = {"for": "you"}
    after.metadata.labels = {"for": "you", "theirs": "2", "new": "b"}
    after.metadata.annotations = {"revision": "2"}
    assert changed_fields(before, after, wanted) == [".metadata.labels.for", ".metadata.labels.old"]


def test_changed_fields_names_owner_references_that_were_set_again():
    before, after = secret("child"), secret("child")
    after.metadata.owner_references = [OwnerReference(api_version="v1", kind="Pod", name="one", uid="1")]
    assert changed_fields(before, after, secret("child")) == [".metadata.ownerReferences"]


async def test_debug_log_has_a_line_with_cause_and_result_of_each_reconcile(log_lines: LogLines):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> Result | None:
        await ctx.apply(secret("child"))
        obj.status.text = obj.spec.name
        return Result(requeue_after=10) if obj.spec.name == "later" else None

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.update(obj, lambda it: setattr(it.spec, "name", "later"))
        await world.until(obj, lambda it: it.status.text == "later")
        await asyncio.sleep(11)
    told = [
        (line["why"], line["result"], line["writes"]) for line in log_lines if line["event"] == "reconciled"
    ]
    assert told[0] == ("Greeting found", "success", 2)
    assert ("Greeting modified", "requeue_after", 1) in told
    assert told[-1] == ("again, as it said itself", "requeue_after", 0)


async def test_run_record_contains_its_requests_and_outcome():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child"))
        obj.status.text = obj.spec.name

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        before = obj.metadata.resource_version
        await world.update(obj, lambda it: setattr(it.spec, "name", "later"))
        obj = await world.until(obj, lambda it: it.status.text == "later")
        await settled(world)
        first, *_, last = world.manager.history.of("greeting").of(obj.key)
    group = "/apis/test.example.com/v1/namespaces/default/greetings"
    secrets = "/api/v1/namespaces/default/secrets"
    assert first.why == "Greeting found"
    assert (first.outcome, first.writes, first.spared, first.recorded) == ("success", 2, 0, 1)
    assert [(each.verb, each.path, each.name, each.code, each.attempts) for each in first.requests] == [
        ("post", secrets, "child", 201, 1),
        ("patch", f"{group}/hello/status", "", 200, 1),
    ]
    assert [(each.type, each.reason, each.message) for each in first.events] == [
        ("Normal", "Created", "Created Secret child")
    ]
    [trigger] = last.triggers
    assert (trigger.change, trigger.source, trigger.kind, trigger.name) == (
        "MODIFIED",
        "for",
        "Greeting",
        "hello",
    )
    assert trigger.old == int(before) < trigger.new
    assert [(each.verb, each.path, each.code) for each in last.requests] == [
        ("apply", f"{secrets}/child", SPARED),
        ("patch", f"{group}/hello/status", 200),
    ]
    assert (last.writes, last.spared, last.next_in, last.gone) == (1, 1, None, False)


async def test_run_record_of_a_failure_has_its_error_and_attempt():
    raised: list[Exception] = [ServerError(500, "InternalError", "not today"), KeyError("the password")]

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if raised:
            raise raised.pop(0)
        raise TerminalError("never")

    async with operated(doing(act), objects=[greeting()]) as world:
        runs = await recorded(world, lambda runs: len(runs) == 3)
    assert [(run.outcome, run.failure, run.error_type, run.attempt) for run in runs] == [
        ("error", "fault", "ServerError", 0),
        ("error", "panic", "KeyError", 1),
        ("error", "terminal", "TerminalError", 2),
    ]
    assert [run.error for run in runs] == [
        str(ServerError(500, "InternalError", "not today")),
        "KeyError; the log of the manager says more",
        "never",
    ]
    assert [run.next_in is not None for run in runs] == [True, True, False]
    assert runs[0].why == "Greeting found"
    assert all(run.why.startswith("again, after its back-off") for run in runs[1:])


async def test_run_record_is_marked_gone_when_its_object_is_deleted():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = obj.spec.name

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.delete(obj)
        *before, last = await recorded(world, lambda runs: runs[-1].gone)
    assert last.why == "Greeting deleted"
    assert not any(run.gone for run in before)


async def test_children_that_are_not_applied_any_more_are_pruned_when_asked_for():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret(obj.spec.name))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Owns(Secret, prune=True),)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
        await world.until_gone(secret("you"))
        assert await world.find(Secret, "me") is not None
        assert await world.events(obj) == ["Created", "Created", "Deleted"]


class Job(Resource, group="batch", version="v1", plural="jobs"):
    """A kind whose dependents stay by default."""

    spec: dict[str, Any] = Field(default_factory=dict)


def job(name: str) -> Job:
    pod = {"containers": [{"name": "main", "image": "image:1"}], "restartPolicy": "Never"}
    annotations = {"devcluster.local/run-time": "3600"}
    template = {"metadata": {"annotations": annotations}, "spec": pod}
    return Job(metadata=ObjectMeta(name=name, namespace="default"), spec={"template": template})


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan", None])
async def test_context_delete_takes_the_pods_of_a_job_along_unless_told_otherwise(propagation: Any):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name == "you":
            await ctx.apply(job("work"))
        for each in await ctx.children(Job) if obj.spec.name == "nobody" else ():
            await (ctx.delete(each, propagation=propagation) if propagation else ctx.delete(each))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Job,)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await asyncio.sleep(10)
        assert world.cluster.client.list("pods", "default")
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until_gone(job("work"))
        await asyncio.sleep(60)
        assert bool(world.cluster.client.list("pods", "default")) is (propagation == "Orphan")


async def test_prune_takes_the_pods_of_a_job_along():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name == "you":
            await ctx.apply(job("work"))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Owns(Job, prune=True),)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await asyncio.sleep(10)
        assert world.cluster.client.list("pods", "default")
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until_gone(job("work"))
        await asyncio.sleep(60)
        assert not world.cluster.client.list("pods", "default")


async def test_context_delete_sends_nothing_for_a_child_that_is_being_deleted():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name == "you":
            child = secret("child")
            child.metadata.finalizers = ["example.com/theirs"]
            await ctx.apply(child)
        for each in await ctx.children(Secret) if obj.spec.name == "nobody" else ():
            await ctx.delete(each)
        obj.status.text = obj.spec.name

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until(obj, lambda it: it.status.text == "nobody")
        runs = await recorded(world, lambda runs: any("Secret modified" in run.why for run in runs))
        await settled(world)
        runs = world.manager.history.of("greeting").of(ObjectKey("default", "hello"))
        sent = [each.verb for run in runs for each in run.requests]
        assert sent.count("delete") == 1


async def test_blocked_object_is_reconciled_again_after_retry_after():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if len(operator.seen) < 3:
            raise Blocked("NotYet", "wait for it", passing=True, retry_after=0.01)
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act), objects=[greeting()]) as world:
        obj = await world.until(
            greeting(namespace="default"), lambda it: said(it).get("Available") == ("True", "Greeted")
        )
        assert "Progressing" not in said(obj)
        assert said(obj)["Degraded"] == ("False", "AsExpected")
        assert await world.events(obj) == []


async def test_on_error_writes_a_handled_error_into_the_status():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "half"
        raise LookupError("no such word")

    async def on_error(self: GreetingOperator, obj: Greeting, error: Exception, ctx: Context) -> None:
        assert isinstance(error, LookupError)
        ctx.condition("Available", False, "NoWord", str(error))

    async with operated(doing(act, on_error=on_error), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), said)
        assert (obj.status.text, said(obj)) == ("half", {"Available": ("False", "NoWord")})
        assert len(LAST[-1].seen) == 1


async def test_unhandled_error_writes_no_status():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "half"
        raise TerminalError("never")

    async with operated(doing(act), objects=[greeting()]) as world:
        await settled(world)
        found = await world.get(Greeting, "hello")
        assert (LAST[-1].seen, found.status.text) == (["hello"], "")


async def cleanup(self: GreetingOperator, obj: Greeting, ctx: Context) -> Result | None:
    self.seen.append(f"cleanup {obj.metadata.name}")
    ctx.event("Removed", "it is gone", once_written=True)
    return Result(requeue_after=0.01) if self.seen.count("cleanup hello") < 3 else None


async def test_cleanup_adds_a_finalizer_and_removes_it_when_done():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        assert obj.metadata.finalizers == ["example.com/theirs", "greeting.test.example.com/finalizer"]

    theirs = greeting(finalizers=["example.com/theirs", "old"])
    with_cleanup = doing(act, cleanup=cleanup, former_finalizers=("old",))
    async with operated(with_cleanup, objects=[theirs]) as world:
        await settled(world)
        await world.delete(theirs)
        obj = await world.until(theirs, lambda it: it.metadata.finalizers == ["example.com/theirs"])
        operator = LAST[-1]
        assert operator.seen[-3:] == ["cleanup hello"] * 3
        assert set(operator.forgotten) == {"hello"}
        assert (await world.events(obj))[-1] == "Removed"
        obj = await world.until(obj, said)
        assert said(obj)["Available"] == ("Unknown", "CleanedUp")
        message = "is being deleted; waits for the finalizers of others: example.com/theirs"
        assert obj.status.conditions[0].message == message


async def nothing_to_clean_up(self: GreetingOperator, obj: Greeting, ctx: Context) -> None: ...


@pytest.mark.parametrize("fails", [False, True], ids=["", "while the reconcile fails"])
@pytest.mark.parametrize("attributes", [{}, {"finalizer_first": False}, {"cleanup": nothing_to_clean_up}])
async def test_former_finalizers_are_removed_with_cleanup_and_without(
    attributes: dict[str, Any], fails: bool
):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        assert "old" not in obj.metadata.finalizers
        if fails:
            raise RuntimeError
        obj.status.text = "done"

    theirs = greeting(finalizers=["old", "example.com/theirs", "older"])
    operator = doing(act, former_finalizers=("old", "older"), **attributes)
    own = [operator.finalizer] if "cleanup" in attributes else []
    async with operated(operator, objects=[theirs]) as world:
        obj = await world.until(theirs, lambda it: "old" not in it.metadata.finalizers)
        assert obj.metadata.finalizers == ["example.com/theirs", *own]
        await world.update(obj, lambda it: it.metadata.finalizers.remove("example.com/theirs"))
        await world.delete(obj)
        await world.until_gone(obj, timeout=3)
    assert any(rule.verbs[-1] == "patch" for rule in rights_of(operator) if "greetings" in rule.resources)


@pytest.mark.parametrize("held", [(), ("example.com/theirs",)])
async def test_former_finalizers_are_removed_from_what_was_deleted_before(held: tuple[str, ...]):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if obj.metadata.name == "first":
            theirs = await operator.client.create(greeting(namespace="default", finalizers=["old", *held]))
            await operator.client.delete(theirs)

    rights = (rbac(groups=Greeting.gvk.group, resources="greetings", verbs="create;delete"),)
    operator = doing(act, former_finalizers=("old",), rights=rights)
    async with operated(operator, objects=[greeting("first")]) as world:
        await settled(world)
        found = await world.find(Greeting, "hello")
        assert (found.metadata.finalizers if found else []) == [*held]
        assert "hello" in LAST[-1].forgotten


def test_former_finalizers_and_cleanup_need_a_reconcile():
    async def reconcile_key(self: Any, key: ObjectKey) -> None: ...

    for attributes, what in (
        ({"former_finalizers": ("old",)}, "former_finalizers"),
        ({"cleanup": cleanup}, "cleanup"),
    ):
        with pytest.raises(TypeError, match=f"Doing has {what}, for which it needs `reconcile`"):
            type("Doing", (Operator,), {"kind": Greeting, "reconcile_key": reconcile_key, **attributes})


async def test_finalizer_stays_when_cleanup_raises_an_error():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None: ...

    async def fails(self: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        raise LookupError("the other side does not answer")

    async def on_error(self: GreetingOperator, obj: Greeting, error: Exception, ctx: Context) -> None:
        obj.status.text = str(error)

    async with operated(doing(act, cleanup=fails, on_error=on_error), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.metadata.finalizers)
        await world.delete(obj)
        obj = await world.until(obj, lambda it: it.status.text)
        assert obj.metadata.finalizers


HELD = "is being deleted; waits for its cleanup: "


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (LookupError("secret"), "CleanupFailed", "it fails: LookupError; the log of the manager says more"),
        (TerminalError("no such room"), "CleanupFailed", "it fails: no such room"),
        (ConnectionRefusedError("no door"), "CleanupFailed", "it fails: no door"),
        (Blocked("Locked", "the door is locked", retry_after=1), "Locked", "the door is locked"),
    ],
)
async def test_waiting_cleanup_sets_conditions_with_its_reason(error: Exception, reason: str, message: str):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None: ...

    async def fails(self: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        self.seen.append("cleanup")
        if self.seen.count("cleanup") < 4:
            obj.status.text = "half"
            ctx.event("Removed", "it is gone", once_written=True)
            raise error

    async with operated(doing(act, cleanup=fails), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.metadata.finalizers)
        await world.delete(obj)
        obj = await world.until(obj, said)
        assert said(obj) == {
            "Available": ("Unknown", reason),
            "Progressing": ("Unknown", reason),
            "Degraded": ("True", reason),
        }
        assert {each.message for each in obj.status.conditions} == {HELD + message}
        told = await world.events(obj)
        if reason == "CleanupFailed":
            assert (obj.status.text, told) == ("", [reason])
        if not isinstance(error, TerminalError):
            await world.until_gone(obj)


async def test_unfinished_cleanup_sets_a_condition_unless_it_sets_one_itself():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None: ...

    async def takes_long(self: GreetingOperator, obj: Greeting, ctx: Context) -> Result:
        if obj.spec.name == "me":
            ctx.condition("Available", False, "Packing", "its things are packed")
        return Result(requeue_after=1)

    for name, condition, message in (
        ("you", ("Progressing", ("True", "CleaningUp")), f"{HELD}it is not done yet"),
        ("me", ("Available", ("False", "Packing")), "its things are packed"),
    ):
        obj = greeting()
        obj.spec.name = name
        async with operated(doing(act, cleanup=takes_long), objects=[obj]) as world:
            obj = await world.until(greeting(namespace="default"), lambda it: it.metadata.finalizers)
            await world.delete(obj)
            obj = await world.until(obj, said)
            assert (list(said(obj).items()), obj.status.conditions[0].message) == ([condition], message)
            assert await world.events(obj) == []


async def test_ensure_finalizer_adds_finalizer_and_annotations_once():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        assert obj.metadata.finalizers == []
        version = writes(WORLD[-1])
        await ctx.ensure_finalizer(annotations={"example.com/note": "begun"})
        await ctx.ensure_finalizer(annotations={"example.com/note": "not again"})
        await ctx.confirm()
        assert writes(WORLD[-1]) == version + 1
        assert obj.metadata.resource_version == str(version + 1)
        obj.status.text = "done"

    async with operated(doing(act, cleanup=cleanup, finalizer_first=False)) as world:
        WORLD.append(world)
        obj = await world.create(greeting())
        obj = await world.until(obj, lambda it: it.status.text)
        assert obj.metadata.annotations == {"example.com/note": "begun"}


async def test_confirm_ends_the_reconcile_of_an_object_deleted_on_the_server():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        WORLD[-1].cluster.client.peek("greetings.test.example.com", "default", "hello")
        if operator.seen == ["hello"]:
            await WORLD[-1].client.delete(obj)
            await ctx.confirm()
            pytest.fail("it was confirmed")

    async with operated(doing(act)) as world:
        WORLD.append(world)
        await world.create(greeting())
        await settled(world)
        assert LAST[-1].seen == ["hello"]
        assert LAST[-1].forgotten


TOO_MANY = 20


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("anew", [True, False])
async def test_apply_slows_down_when_each_new_child_is_garbage_collected(
    anew: bool, told: bool, monkeypatch: pytest.MonkeyPatch
):
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        if len(operator.seen) > TOO_MANY:
            await asyncio.sleep(60)
        child = await ctx.apply(secret(obj.metadata.name))
        if told:
            obj.status.text = child.metadata.uid

    original, deaf = Sink.event, False

    def event(self: Sink, kind: str, raw: Any) -> None:
        if not deaf or b'"kind":"Secret"' in bytes(raw):
            original(self, kind, raw)

    monkeypatch.setattr(Sink, "event", event)
    async with operated(doing(act)) as world:
        await world.create(greeting())
        await settled(world)
        deaf = True
        api = world.cluster.client  # the manager's own would tell the cache
        await api.delete("greetings.test.example.com", "default", "hello")
        if anew:
            await api.create("greetings.test.example.com", "default", {"metadata": {"name": "hello"}})
        before = len(LAST[-1].seen)
        await asyncio.sleep(12)
        assert before + 2 <= len(LAST[-1].seen) <= TOO_MANY


async def test_child_deleted_repeatedly_is_created_at_once_when_its_owner_changes():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child"))

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        child = secret("child", "default")
        for _ in range(3):
            await settled(world)
            await world.delete(await world.get(Secret, "child"))
        await settled(world)
        assert await world.find(Secret, "child") is None
        await world.update(obj, lambda it: it.metadata.annotations.update({"example.com/note": "new"}))
        await world.until(child, lambda _: True, timeout=1.0)


async def test_refuse_taken_enqueues_the_object_when_the_name_is_taken_or_freed():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "free"
        try:
            await ctx.refuse_taken(Secret, "child")
        except Blocked:
            obj.status.text = "taken"

    async with operated(doing(act)) as world:
        obj = await world.create(greeting())
        await world.until(obj, lambda it: it.status.text == "free")
        others = await world.create(secret("child"))
        await world.until(obj, lambda it: it.status.text == "taken")
        await world.delete(others)
        await world.until(obj, lambda it: it.status.text == "free")


async def test_changed_error_reconciles_its_newer_object_at_once():
    names: list[str] = []

    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        names.append(obj.spec.name)
        if names == ["you"]:
            raise Changed(obj.model_copy(update={"spec": GreetingSpec(name="me")}))

    async with operated(doing(act), objects=[greeting()]) as world:
        await settled(world)
        assert names == ["you", "me"]


async def test_apply_into_a_terminating_namespace_counts_as_no_failure():
    async def act(operator: GreetingOperator, obj: Greeting, ctx: Context) -> None:
        await ctx.apply(secret("child", "going"))
        obj.status.text = "done"

    async with operated(doing(act)) as world:
        await world.create(Namespace(metadata=ObjectMeta(name="going")))
        held = await world.create(greeting(namespace="going", finalizers=["example.com/hold"]))
        await world.until(held, lambda it: it.status.text)
        await world.client.delete(Namespace(metadata=ObjectMeta(name="going")))
        await world.until_gone(secret("child", "going"))
        await settled(world)
        assert world.manager.metrics.registry.get_sample_value(
            "controller_runtime_reconcile_errors_total", {"controller": "greeting"}
        ) in (None, 0.0)
        await world.update(held, lambda it: it.metadata.finalizers.clear())
