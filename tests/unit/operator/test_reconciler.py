"""Reconciles of an operator: records, errors, cleanup and finalizers."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Any

import pytest

from manager import Blocked, Context, Result, TerminalError, rbac
from manager.api import ObjectKey, ObjectMeta
from manager.controller import generation_changed
from manager.kube.errors import ServerError
from manager.operator import rights_of
from manager.operator.context import Changed
from manager.telemetry.runs import SPARED
from manager_kinds.apps_v1 import Deployment
from manager_tools.testing import operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import (
    LAST,
    Doing,
    Greeting,
    GreetingSpec,
    WideGreeting,
    cleanup,
    deployment,
    doing,
    greeted,
    greeting,
    idle,
    patch_status,
    recorded,
    rename,
    said,
    secret,
    settled,
)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("cluster_scoped", [False, True])
async def test_generation_changed_predicate_ignores_status_writes_of_other_clients(cluster_scoped: bool):
    entered, going_on = asyncio.Event(), asyncio.Event()
    going_on.set()

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        entered.set()
        await going_on.wait()

    kind = WideGreeting if cluster_scoped else Greeting
    attributes = {"on": staticmethod(generation_changed), "kind": kind, "owns": ()}
    async with operated(doing(act, **attributes)) as world:
        obj = await world.create(kind(metadata=ObjectMeta(name="hello")))
        await settled(world)
        await patch_status(world, obj, text="Hello")
        await settled(world)
        assert len(LAST[-1].seen) == 1
        entered.clear()
        going_on.clear()
        await world.update(obj, lambda it: setattr(it.spec, "name", "Jack"))
        await entered.wait()
        await patch_status(world, obj, text="Goodbye")
        await asyncio.sleep(1)
        going_on.set()
        await settled(world)
        assert len(LAST[-1].seen) == 2


@pytest.mark.parametrize("case", ["success", "a kind of others", "a terminal error", "reconcile_key"])
async def test_status_change_during_the_reconcile_triggers_another_reconcile(case: str):
    entered, going_on = asyncio.Event(), asyncio.Event()
    going_on.set()

    async def act(operator: Doing, obj: Any, ctx: Context) -> None:
        if case == "success":
            obj.status.text = "Hello"
        entered.set()
        await going_on.wait()
        if case == "a terminal error":
            raise TerminalError("not today")

    async def reconcile_key(operator: Doing, key: ObjectKey) -> None:
        operator.seen.append(key.name)
        entered.set()
        await going_on.wait()

    attributes = {"reconcile_key": reconcile_key} if case == "reconcile_key" else {}
    kind = Deployment if case == "a kind of others" else Greeting
    obj = deployment() if kind is Deployment else greeting(namespace="default")
    async with operated(doing(act, kind, **attributes), objects=[obj]) as world:
        await settled(world, pause=1)
        entered.clear()
        going_on.clear()
        reconciles = len(LAST[-1].seen)
        LAST[-1].enqueue(ObjectKey("default", obj.metadata.name))
        await entered.wait()
        theirs = {"type": "Theirs", "status": "True", "reason": "Set", "message": ""}
        theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await patch_status(world, obj, text="Goodbye", conditions=[theirs])
        await settled(world)
        going_on.set()
        await settled(world)
        assert len(LAST[-1].seen) == reconciles + 2
        if case == "success":
            assert (await world.get(Greeting, "hello")).status.text == "Hello"


async def test_cleanup_runs_even_if_the_predicate_of_the_operator_rejects_the_deletion():
    wanted = {"on": staticmethod(lambda event: "a" in event.meta.labels), "cleanup": cleanup}
    async with operated(doing(idle, **wanted)) as world:
        obj = await world.create(greeting(labels={"a": "b"}))
        await world.until(obj, lambda it: it.metadata.finalizers)
        await world.update(obj, lambda it: it.metadata.labels.clear())
        await world.delete(obj)
        await world.until_gone(obj, timeout=10)


async def test_reconcile_is_not_called_for_a_deleted_or_deleting_object():
    held = greeting("held", finalizers=["example.com/hold"])
    async with operated(doing(idle), objects=[greeting(), held]) as world:
        await settled(world)
        operator = LAST[-1]
        assert sorted(operator.seen) == ["held", "hello"]
        await world.delete(greeting(namespace="default"))
        await world.delete(greeting("held", namespace="default"))
        await settled(world)
        assert sorted(operator.seen) == ["held", "hello"]
        assert set(operator.forgotten) == {"held", "hello"}


async def test_reconcile_record_and_debug_log_contain_trigger_requests_and_outcome(log_lines: LogLines):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> Result | None:
        await ctx.apply(secret("child"))
        obj.status.text = obj.spec.name
        return Result(requeue_after=10) if obj.spec.name == "later" else None

    async with greeted(act) as (world, obj):
        await rename(world, obj, "later")
        await settled(world)
        first, *_, last = world.manager.history.of("greeting").of(obj.key)
        await asyncio.sleep(11)
        await world.delete(obj)
        [end] = [run for run in await recorded(world, lambda runs: runs[-2].gone) if run.gone]
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
    told = trigger.change, trigger.source, trigger.kind, trigger.name
    assert told == ("MODIFIED", "for", "Greeting", "hello")
    assert trigger.old == int(obj.metadata.resource_version) < trigger.new
    assert [(each.verb, each.path, each.code) for each in last.requests] == [
        ("apply", f"{secrets}/child", SPARED),
        ("patch", f"{group}/hello/status", 200),
    ]
    assert (last.writes, last.spared, last.next_in, last.gone) == (1, 1, 10.0, False)
    assert end.why.endswith("Greeting deleted")
    lines = [
        (line["why"], line["result"], line["writes"]) for line in log_lines if line["event"] == "reconciled"
    ]
    assert lines[0] == ("Greeting found", "success", 2)
    assert ("Greeting modified", "requeue_after", 1) in lines
    assert ("requeue by its own result", "requeue_after", 0) in lines


async def test_reconcile_record_of_a_failure_contains_error_and_attempt():
    raised: list[Exception] = [ServerError(500, "InternalError", "not today"), KeyError("the password")]

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
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
        "KeyError; see the manager's log",
        "never",
    ]
    assert [run.next_in is not None for run in runs] == [True, True, False]
    assert runs[0].why == "Greeting found"
    assert all(run.why.startswith("retry after the back-off") for run in runs[1:])


async def test_operator_with_cleanup_adds_a_finalizer_and_removes_it_after_the_cleanup():
    found: list[list[str]] = []

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        found.append(list(obj.metadata.finalizers))

    theirs = greeting(finalizers=["example.com/theirs", "old"])
    with_cleanup = doing(act, cleanup=cleanup, former_finalizers=("old",))
    async with operated(with_cleanup, objects=[theirs]) as world:
        await settled(world)
        assert found[0] == ["example.com/theirs", "greeting.test.example.com/finalizer"]
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


HAS_FINALIZER = attrgetter("metadata.finalizers")


@pytest.mark.parametrize("fails", [False, True], ids=["", "while the reconcile fails"])
@pytest.mark.parametrize("attributes", [{}, {"finalizer_first": False}, {"cleanup": idle}])
async def test_former_finalizers_are_removed_by_operators_with_and_without_cleanup(
    attributes: dict[str, Any], fails: bool
):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
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
async def test_former_finalizers_are_removed_from_objects_that_are_already_terminating(held: tuple[str, ...]):
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
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


async def test_on_error_method_can_write_an_error_of_reconcile_or_cleanup_into_the_status():
    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        obj.status.text = "half"
        raise LookupError("no such word")

    async def fails(self: Doing, obj: Greeting, ctx: Context) -> None:
        raise LookupError("the other side does not answer")

    async def on_error(self: Doing, obj: Greeting, error: Exception, ctx: Context) -> None:
        assert isinstance(error, LookupError)
        ctx.condition("Available", False, "NoWord", str(error))

    async with greeted(act, said, cleanup=fails, on_error=on_error) as (world, obj):
        assert (obj.status.text, said(obj)) == ("half", {"Available": ("False", "NoWord")})
        await asyncio.sleep(60)
        assert len(LAST[-1].seen) == 2, "the second reconcile follows the finalizer and is no retry"
        await world.delete(obj)
        deleted = await world.until(obj, lambda it: "other side" in it.status.conditions[0].message)
        assert deleted.metadata.finalizers


HELD = "is being deleted; waits for its cleanup: "


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (LookupError("secret"), "CleanupFailed", "it fails: LookupError; see the manager's log"),
        (TerminalError("no such room"), "CleanupFailed", "it fails: no such room"),
        (ConnectionRefusedError("no door"), "CleanupFailed", "it fails: no door"),
        (Blocked("Locked", "the door is locked", retry_after=1), "Locked", "the door is locked"),
    ],
)
async def test_cleanup_error_sets_conditions_with_reason_cleanup_failed_or_the_reason_of_blocked(
    error: Exception, reason: str, message: str
):
    async def fails(self: Doing, obj: Greeting, ctx: Context) -> None:
        self.seen.append("cleanup")
        if self.seen.count("cleanup") < 4:
            obj.status.text = "half"
            ctx.event("Removed", "it is gone", once_written=True)
            raise error

    async with greeted(idle, HAS_FINALIZER, cleanup=fails) as (world, held):
        await world.delete(held)
        obj = await world.until(held, said)
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


async def test_unfinished_cleanup_sets_progressing_unless_the_cleanup_sets_a_condition():
    async def takes_long(self: Doing, obj: Greeting, ctx: Context) -> Result:
        if obj.spec.name == "me":
            ctx.condition("Available", False, "Packing", "its things are packed")
        return Result(requeue_after=1)

    for name, condition, message in (
        ("you", ("Progressing", ("True", "CleaningUp")), f"{HELD}it is not done yet"),
        ("me", ("Available", ("False", "Packing")), "its things are packed"),
    ):
        obj = greeting()
        obj.spec.name = name
        async with operated(doing(idle, cleanup=takes_long), objects=[obj]) as world:
            obj = await world.until(greeting(namespace="default"), HAS_FINALIZER)
            await world.delete(obj)
            obj = await world.until(obj, said)
            assert (list(said(obj).items()), obj.status.conditions[0].message) == ([condition], message)
            assert await world.events(obj) == []


async def test_reconcile_repeats_immediately_with_the_newer_object_that_its_exception_contains():
    names: list[str] = []

    async def act(operator: Doing, obj: Greeting, ctx: Context) -> None:
        names.append(obj.spec.name)
        if names == ["you"]:
            raise Changed(obj.model_copy(update={"spec": GreetingSpec(name="me")}))

    async with operated(doing(act), objects=[greeting()]) as world:
        await settled(world)
        assert names == ["you", "me"]
