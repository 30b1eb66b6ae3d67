"""The context of a reconcile: status, conditions, Events, finalizer and deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from manager import Context, Operator, Owns, Selection
from manager.api import ObjectKey, ObjectMeta, OwnerReference
from manager.controller import Predicate, any_of, generation_changed, status_changed
from manager.kube.errors import ServerError
from manager_kinds.batch_v1 import Job
from manager_kinds.core_v1 import Secret
from manager_tools.testing import operated
from tests.unit.operator.greetings import (
    LAST,
    MAY_PATCH,
    Doing,
    Greeting,
    cleanup,
    doing,
    events,
    greeted,
    greeting,
    patch_status,
    recorded,
    rename,
    said,
    secret,
    settled,
    writes,
)

pytestmark = pytest.mark.virtual_time


async def test_status_has_the_reconciled_generation_and_is_not_written_again_when_unchanged():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        assert ctx.object is obj
        obj.status.text = "Hello, "
        obj.status.text += obj.spec.name
        ctx.condition("Available", True, "Greeted", "it is greeted")

    async with greeted(act) as (world, found):
        assert (found.status.text, found.status.observed_generation) == ("Hello, you", 1)
        [condition] = found.status.conditions
        assert condition.observed_generation == 1
        assert condition.last_transition_time is not None
        before = await settled(world)
        LAST[-1].enqueue(found.key)
        await asyncio.sleep(0.05)
        assert len(LAST[-1].seen) == 2
        assert writes(world) == before  # an unchanged status causes no write


def changed_label(obj: Greeting) -> None:
    obj.metadata.labels["x"] = "y"


def dropped_owner(obj: Greeting) -> None:
    obj.metadata.owner_references.append(OwnerReference(api_version="v1", kind="Pod", name="a", uid="u"))


def unblocked_owner(obj: Greeting) -> None:
    obj.metadata.owner_references[0].block_owner_deletion = False


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (changed_label, "metadata.labels"),
        (dropped_owner, "metadata.ownerReferences"),
        (unblocked_owner, "metadata.ownerReferences"),
    ],
)
async def test_reconcile_fails_when_it_changes_metadata_but_does_not_write_the_change(
    change: Callable[[Greeting], None], field: str
):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        change(obj)
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act)) as world:
        there = await world.create(secret("there"))
        owner = OwnerReference(api_version="v1", kind="Secret", name="there", uid=there.metadata.uid)
        owner.block_owner_deletion = True
        obj = await world.create(greeting(owner_references=[owner]))
        obj = await world.until(obj, lambda it: "Degraded" in said(it))
        assert said(obj)["Degraded"] == ("True", "Undeclared")
        [message] = [each.message for each in obj.status.conditions if each.type == "Degraded"]
        assert message == (
            f"the reconcile failed: Doing has changed {field} of Greeting default/hello, and nothing "
            "has written it: call `await ctx.patch()` after the change"
        )


async def test_reconcile_that_returns_an_invalid_value_sets_degraded_and_discards_its_own_conditions():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> Any:
        ctx.condition("Available", True, "Greeted")
        return 5

    async with greeted(act, lambda it: "Degraded" in said(it)) as (_, obj):
        assert said(obj)["Degraded"] == ("True", "TypeError")
        assert said(obj).get("Available") != ("True", "Greeted")


async def test_reconcile_succeeds_when_it_writes_changed_metadata_with_the_client():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        changed_label(obj)
        await ctx.client.patch(obj)
        ctx.condition("Available", True, "Greeted")

    async with greeted(act, lambda it: "Available" in said(it), rights=MAY_PATCH) as (_, obj):
        assert (said(obj), obj.metadata.labels) == ({"Available": ("True", "Greeted")}, {"x": "y"})


@pytest.mark.parametrize("write", ["write_status", "patch"])
async def test_reconciled_object_has_changes_of_other_clients_after_ctx_write_status_or_ctx_patch(write: str):
    theirs = {"type": "Theirs", "status": "True", "reason": "Set", "message": ""}
    theirs["lastTransitionTime"] = "2026-11-22T10:00:00Z"

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        if "Theirs" not in said(obj):
            await patch_status(world, obj, conditions=[theirs])
            change = {"spec": {"name": "Jack"}, "metadata": {"labels": {"a": "b"}}}
            await world.cluster.client.patch("greetings.test.example.com", "default", "hello", change)
        status, conditions, metadata = obj.status, obj.status.conditions, obj.metadata
        metadata.annotations["ours"] = status.text = "set"
        await getattr(ctx, write)()
        await ctx.patch()
        await ctx.write_status()
        assert (obj.spec.name, obj.metadata.labels) == ("Jack", {"a": "b"})
        # The operator can continue to use the objects that it has.
        assert obj.metadata is metadata
        assert (obj.status is status, status.conditions is conditions) == (True, True)
        metadata.annotations["more"] = "yes"
        await ctx.patch()
        ctx.condition("Available", True, "Greeted")

    async with operated(doing(act, rights=MAY_PATCH)) as world:
        obj = await world.create(greeting())
        found = await world.until(obj, lambda it: "Available" in said(it))
        assert said(found) == {"Theirs": ("True", "Set"), "Available": ("True", "Greeted")}
        assert (found.spec.name, found.metadata.labels, found.metadata.annotations) == (
            "Jack",
            {"a": "b"},
            {"ours": "set", "more": "yes"},
        )


@pytest.mark.parametrize(
    "other", [None, {}, {"text": None, "observedGeneration": None}, {"text": "what an earlier process told"}]
)
@pytest.mark.parametrize("on", [Operator.on, any_of(generation_changed, status_changed)])
async def test_status_is_written_again_after_another_client_has_changed_it(on: Predicate, other: Any):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "Hello"

    async with greeted(act, on=staticmethod(on)) as (world, found):
        await settled(world)
        api, resource = world.cluster.client, "greetings.test.example.com"
        change = {"status": other if other is None else dict(other)}  # the server stores this object
        if other == {}:
            bare = {**await api.get(resource, "default", "hello"), **change}
            await api.update(resource, "default", bare, subresource="status")
        else:
            await api.patch(resource, "default", "hello", change, subresource="status")
        written = await world.until(found, lambda it: it.status.text == "Hello")
        assert written.status.observed_generation == 1
        await settled(world)
        assert len(LAST[-1].seen) == 2


async def test_condition_event_is_sent_once_for_each_change_of_the_condition():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        ctx.condition("Available", True, "Greeted", f"{obj.spec.name} is greeted", event="Normal")

    async with greeted(act, said) as (world, found):
        LAST[-1].enqueue(found.key)
        await settled(world)
        assert events(world) == [("Greeted", "you is greeted", 1)]
        await world.update(found, lambda it: setattr(it.spec, "name", "me"))
        await settled(world)
        assert events(world) == [("Greeted", "you is greeted", 1), ("Greeted", "me is greeted", 1)]


async def test_failed_reconcile_sends_no_event_that_waits_for_the_status_write():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        ctx.condition("Available", True, "Greeted", "it is greeted", event="Normal")
        ctx.event("Later", "in its time", once_written=True)
        if len(operator.seen) == 1:
            raise ServerError(500, "InternalError", "not now")

    async with greeted(act, said) as (world, _):
        await settled(world)
        assert events(world) == [("Greeted", "it is greeted", 1), ("Later", "in its time", 1)]


def job(name: str) -> Job:
    pod = {"containers": [{"name": "main", "image": "image:1"}], "restartPolicy": "Never"}
    annotations = {"devcluster.local/run-time": "3600"}
    template = {"metadata": {"annotations": annotations}, "spec": pod}
    return Job(metadata=ObjectMeta(name=name, namespace="default"), spec={"template": template})


@pytest.mark.parametrize("way", ["Background", "Foreground", "Orphan", "", "prune"])
async def test_deletion_of_a_job_also_deletes_its_pods_unless_the_propagation_is_orphan(way: Any):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        for name in ("kept", "work") if obj.spec.name == "you" else ("kept",):
            await ctx.apply(job(name))
        for each in await ctx.children(Job) if obj.spec.name == "nobody" and way != "prune" else ():
            if each.metadata.name == "work":
                await (ctx.delete(each, propagation=way) if way else ctx.delete(each))
        obj.status.text = obj.spec.name

    async with operated(doing(act, owns=(Owns(Job, prune=way == "prune"),)), objects=[greeting()]) as world:
        obj = await world.until(greeting(namespace="default"), lambda it: it.status.text)
        await asyncio.sleep(10)
        assert len(world.cluster.client.list("pods", "default")) == 2
        await world.update(obj, lambda it: setattr(it.spec, "name", "nobody"))
        await world.until_gone(job("work"))
        await asyncio.sleep(60)
        assert len(world.cluster.client.list("pods", "default")) == 1 + (way == "Orphan")
        assert await world.find(Job, "kept") is not None
        if way == "prune":
            assert (await world.events(obj))[-1] == "Deleted"


async def test_ctx_delete_sends_no_request_for_a_terminating_child():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name == "you":
            child = secret("child")
            child.metadata.finalizers = ["example.com/theirs"]
            await ctx.apply(child)
        for each in await ctx.children(Secret) if obj.spec.name == "nobody" else ():
            await ctx.delete(each)
        obj.status.text = obj.spec.name

    async with greeted(act) as (world, obj):
        await rename(world, obj, "nobody")
        runs = await recorded(world, lambda runs: any("Secret modified" in run.why for run in runs))
        await settled(world)
        runs = world.manager.history.of("greeting").of(ObjectKey("default", "hello"))
        sent = [each.verb for run in runs for each in run.requests]
        assert sent.count("delete") == 1


async def test_ensure_finalizer_adds_finalizer_and_annotations_once():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        assert obj.metadata.finalizers == []
        version = writes(world)
        await ctx.ensure_finalizer(annotations={"example.com/note": "begun"})
        await ctx.ensure_finalizer(annotations={"example.com/note": "not again"})
        await ctx.confirm()
        assert writes(world) == version + 1
        assert obj.metadata.resource_version == str(version + 1)
        obj.status.text = "done"

    async with operated(doing(act, cleanup=cleanup, finalizer_first=False)) as world:
        obj = await world.create(greeting())
        obj = await world.until(obj, lambda it: it.status.text)
        assert obj.metadata.annotations == {"example.com/note": "begun"}


async def test_ctx_confirm_with_latest_checks_the_status_when_an_earlier_confirm_checked_the_spec():
    texts: list[str] = []

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        if not obj.status.text:
            await patch_status(world, obj, text="theirs")
        await ctx.confirm()
        await ctx.confirm(latest=True)
        texts.append(obj.status.text)

    async with operated(doing(act)) as world:
        await world.create(greeting())
        await settled(world)
    assert set(texts) == {"theirs"}


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_prune_deletes_children_of_an_owned_kind_that_has_a_selection(metadata_only: bool):
    selection = Selection.of(label_selector="a=b")
    owns = Owns(Secret, selection=selection, metadata_only=metadata_only, prune=True)

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        if obj.spec.name == "you":
            child = secret("child")
            child.metadata.labels = {"a": "b"}
            await ctx.apply(child)
        obj.status.text = obj.spec.name

    async with greeted(act, owns=(owns,)) as (world, obj):
        await rename(world, obj, "nobody")
        await world.until_gone(secret("child"), timeout=10)


async def test_ctx_confirm_ends_the_reconcile_when_the_object_was_deleted_on_the_server():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        await world.client.delete(obj)
        await ctx.confirm()
        operator.seen.append("confirm has not ended the reconcile")

    async with operated(doing(act)) as world:
        await world.create(greeting())
        await settled(world)
        assert LAST[-1].seen == ["hello"]
        assert LAST[-1].forgotten
