"""Conditions in status models of different forms, with and without a list of conditions."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, create_model

from devcluster.errors import not_found
from manager import Blocked, Context, TerminalError
from manager.api import (
    AVAILABLE,
    ApiModel,
    Condition,
    ObjectKey,
    ObjectMeta,
    Resource,
    Status,
    crd,
    is_true,
    list_map,
    preserve_unknown,
    schema_format,
)
from manager.kube.errors import Invalid
from manager.operator.conditions import ConditionList
from manager_tools.testing import World, operated, without_manager
from tests.unit.operator.greetings import LAST, Doing, doing

pytestmark = pytest.mark.virtual_time


class TheirCondition(ApiModel):
    """Condition with the fields of cert-manager's Certificate condition."""

    type: str
    status: Literal["True", "False", "Unknown"]
    last_transition_time: Annotated[str, schema_format("date-time")] | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None


class OldCondition(ApiModel):
    """Condition with some of the fields of a node condition."""

    type: str
    status: str
    last_heartbeat_time: str | None = None


class OddCondition(ApiModel):
    """Condition with an additional required field."""

    type: str
    status: str
    severity: str


class TheirStatus(ApiModel):
    conditions: Annotated[list[TheirCondition], list_map("type")] | None = None
    revision: int | None = None


class BareStatus(ApiModel):
    parents: list[str] | None = None


class StrictStatus(ApiModel):
    conditions: list[Condition] | None = None
    parents: list[str]


def kind_with(status: Any, default: Any = None) -> type[Resource]:
    """Return a kind whose status has this type and this default."""
    types = {"status": status, "spec": dict[str, str] | None}
    body = {"__module__": __name__, "__annotations__": types, "status": default, "spec": None}
    made = type(Resource)("Thing", (Resource,), body, group="test.example.com", version="v1", plural="things")
    return crd()(made)


def thing(kind: type[Resource], **fields: Any) -> Any:
    return kind(metadata=ObjectMeta(name="a", namespace="default"), **fields)


async def make_ready(_: Doing, obj: Any, ctx: Context) -> None:
    ctx.condition("Ready", True, "Kept", "it is kept", event="Normal")


def context_with(status: Any, /, **fields: Any) -> Context:
    """Return a context, without a manager, of an object whose status has this type."""
    kind = kind_with(status)
    return Context(without_manager(doing(make_ready, kind)), thing(kind, **fields))


def stored_conditions(world: World) -> list[dict[str, Any]]:
    stored = world.cluster.client.peek("things.test.example.com", "default", "a")
    return (stored.get("status") or {}).get("conditions") or []


async def test_condition_message_update_keeps_the_transition_time_and_foreign_conditions():
    kind = kind_with(TheirStatus | None)

    async def set_words(_: Doing, obj: Any, ctx: Context) -> None:
        ctx.condition("Ready", True, "Kept", obj.spec["words"])

    async with operated(doing(set_words, kind), objects=[thing(kind, spec={"words": "first"})]) as world:
        await world.until(thing(kind), lambda _: stored_conditions(world))
        [before] = stored_conditions(world)
        changed = await world.get(kind, "a")
        changed.status.conditions.append(TheirCondition(type="Theirs", status="False"))
        await world.client.status.patch(changed)
        await world.update(thing(kind), lambda it: setattr(it, "spec", {"words": "second"}))
        await world.until(thing(kind), lambda _: stored_conditions(world)[0]["message"] == "second")
        ours, theirs = stored_conditions(world)
        assert theirs == {"type": "Theirs", "status": "False"}
        assert ours["lastTransitionTime"] == before["lastTransitionTime"]
        assert ours["observedGeneration"] == 2


def status_with(conditions: Any, default: Any = None) -> Any:
    """Return a status model whose field `conditions` has this type and this default."""
    return create_model("ThingStatus", __base__=ApiModel, conditions=(conditions, default))


OldStatus = status_with(list[OldCondition], [])
LooseStatus = status_with(list[Annotated[dict[str, Any], preserve_unknown()]] | None)
OddStatus = status_with(list[OddCondition] | None)
WORDS = {"lastTransitionTime", "message", "observedGeneration", "reason"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (OldStatus | None, set()),
        (LooseStatus | None, WORDS),
        (TheirStatus | None, WORDS),
        (TheirStatus, WORDS),
    ],
)
async def test_stored_condition_has_only_fields_that_the_status_model_allows(status: Any, words: set[str]):
    kind = kind_with(status, TheirStatus() if status is TheirStatus else None)
    async with operated(doing(make_ready, kind), objects=[thing(kind)]) as world:
        await world.until(thing(kind), lambda _: stored_conditions(world))
        [condition] = stored_conditions(world)
        assert condition.keys() == {"type", "status", *words}
        assert (condition["type"], condition["status"]) == ("Ready", "True")
        assert condition.get("reason", "Kept") == "Kept"
        assert await world.events(await world.get(kind, "a")) == ["Kept"]


def test_ctx_condition_keeps_unknown_json_fields_of_the_condition_that_it_updates():
    theirs = {"type": "Ready", "status": "False", "reason": "New", "severity": "low"}
    ctx = context_with(LooseStatus | None, status={"conditions": [theirs]})
    ctx.condition("Ready", True, "Kept")
    [condition] = ctx.object.status.conditions  # type: ignore[attr-defined]
    assert (condition["status"], condition["reason"], condition["severity"]) == ("True", "Kept", "low")


class CheckedStatus(Status):
    model_config = ConfigDict(validate_assignment=True)

    conditions: list[Condition] | None = None


@pytest.mark.parametrize("status", [Status, CheckedStatus])
@pytest.mark.parametrize("held", [None, {}, {"conditions": []}])
def test_ctx_condition_sets_and_replaces_a_condition_when_the_status_is_none_or_a_dict(
    status: type[Status], held: dict[str, Any] | None
):
    ctx = context_with(status | None)
    ctx.object.status = held  # type: ignore[attr-defined]
    for reason in ("Failed", "Kept"):
        ctx.condition("Ready", True, reason)
        assert [each.reason for each in ctx.conditions.values()] == [reason]


class Plain(Resource, group="test.example.com", version="v1", plural="things", kind="Thing"):
    spec: dict[str, str] | None = None


class NamedCondition(ApiModel):
    type: Literal["Synced", "Deleted"]
    status: str
    reason: str | None = None
    message: str | None = None


NamedStatus = status_with(list[NamedCondition] | None)


@pytest.mark.parametrize(
    "kind", [kind_with(BareStatus | None), crd(status=False)(Plain), kind_with(NamedStatus | None)]
)
async def test_failing_object_of_a_kind_without_conditions_gets_one_event_for_each_reason(
    kind: type[Resource],
):
    errors: list[Exception] = [Blocked("NameTaken", "ConfigMap a is another's", retry_after=0.01)] * 3
    errors += [*[Invalid(422, "Invalid", f"no {number}") for number in range(3)], TerminalError("never")]

    async def fail(_: Doing, obj: Any, ctx: Context) -> None:
        raise errors.pop(0)

    async with operated(doing(fail, kind), objects=[thing(kind)]) as world:
        await asyncio.sleep(60)
        assert errors == []
        events = world.cluster.client.list("events", "default")
        assert [(each["type"], each["reason"], each.get("count", 1)) for each in events] == [
            ("Warning", "NameTaken", 1),
            ("Warning", "Invalid", 1),
            ("Warning", "TerminalError", 1),
        ]


@pytest.mark.parametrize(
    ("status", "holds"),
    [
        (TheirStatus | None, True),
        (StrictStatus | None, True),
        (BareStatus | None, False),
        (OddStatus | None, False),
        (dict[str, str] | None, False),
    ],
)
def test_condition_list_requires_a_conditions_field_of_a_suitable_type(status: Any, holds: bool):
    assert (ConditionList.of(kind_with(status)) is not None) is holds


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (BareStatus, "Thing has no status.conditions that can be set: use ctx.event"),
        (StrictStatus, "Thing.status is missing, and cannot be made: it needs parents"),
    ],
)
def test_ctx_condition_raises_type_error_when_the_kind_has_no_usable_status(status: Any, said: str):
    ctx = context_with(status | None)
    with pytest.raises(TypeError, match=f"^{said}"):
        ctx.condition("Ready", True, "Kept")


def test_ctx_condition_raises_when_the_model_allows_only_other_condition_types():
    ctx = context_with(NamedStatus | None)
    ctx.condition("Synced", True, "Kept")
    with pytest.raises(TypeError, match=r"^Thing takes no condition of type Ready: its model names those"):
        ctx.condition("Ready", True, "Kept")
    operator = doing(make_ready, kind_with(NamedStatus | None))
    assert operator.conditions == ()
    with pytest.raises(TypeError, match=r"\.conditions: Thing takes none of type Degraded: its model names"):
        type("Other", (operator,), {"conditions": ("Synced", "Degraded")})


def test_condition_error_suggests_the_most_similar_condition_type():
    ctx = context_with(MoreStatus)
    said = r"^Thing takes no condition of type Degarded: its Status names .*; did you mean Degraded\?$"
    with pytest.raises(TypeError, match=said):
        ctx.condition("Degarded", True, "Broken")
    with pytest.raises(TypeError, match=r"takes none of type Availble: .*; did you mean Available\?$"):
        doing(make_ready, kind_with(MoreStatus), conditions=("Availble",))
    ctx.condition("ChildrenStable", True, "AsWanted")


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (True, "not camel", "reason 'not camel' has to be one word in CamelCase"),
        (True, "", "reason '' has to be one word in CamelCase"),
        ("False", "Camel", "status 'False' has to be True, False or \"Unknown\""),
    ],
)
def test_condition_error_names_the_condition_with_an_invalid_status_or_reason(
    status: Any, reason: str, said: str
):
    ctx = context_with(MoreStatus)
    with pytest.raises((TypeError, ValueError), match=f"^condition Available of Thing: {re.escape(said)}$"):
        ctx.condition(AVAILABLE, status, reason)


def test_blocked_exception_refuses_an_invalid_reason():
    with pytest.raises(ValueError, match=r"^Blocked: reason 'no image' has to be one word in CamelCase$"):
        Blocked("no image", "there is none")


async def test_condition_is_removed_when_the_status_model_no_longer_declares_it():
    old = Condition(type="Degraded", status="True", reason="Broken", message="the reconcile failed: no")
    kind = kind_with(OurStatus)
    stored = thing(kind, status=OurStatus(conditions=[old]))
    async with operated(doing(make_ready, kind), objects=[stored]) as world:
        await world.until(stored, lambda it: it.status and it.status.observed_generation)
        assert [each["type"] for each in stored_conditions(world)] == ["Ready"]


async def test_reconcile_error_names_the_missing_status_subresource_of_the_crd():
    kind: Any = kind_with(TheirStatus | None)
    del kind.crd_options  # another program defines the CRD, without the subresource
    theirs = crd(status=False)(kind_with(TheirStatus | None))
    operator = doing(make_ready, kind, extends_status=True)
    async with operated(operator, objects=[thing(kind)], kinds=[theirs]) as world:

        def errors(_: Any) -> set[str]:
            runs = world.manager.history.of("thing").of(ObjectKey("default", "a"))
            return {run.error for run in runs if run.error}

        await world.until(thing(kind), errors)
        [error] = errors(None)
        assert error.startswith(
            "the definition things.test.example.com has no subresource status in version v1"
        )
    assert LAST[-1].forgotten == []


class OurStatus(Status, conditions={"Ready": "it works"}):
    """Status with the condition Ready."""


class MoreStatus(Status, conditions={"Available": "", "Progressing": "", "Degraded": ""}):
    """Status with three conditions."""


class StableStatus(Status, conditions={"Ready": "", "ChildrenStable": ""}):
    """Status with the conditions Ready and ChildrenStable."""


class ToldStatus(Status, conditions={"Told": "", **MoreStatus.meanings}):
    """Status with the conditions of MoreStatus and the condition Told."""


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("status", "reason", "left"),
    [
        (OurStatus, "NoImage", {}),
        (OurStatus, "NameTaken", {}),
        (MoreStatus, "NoImage", {"Degraded": ("False", "AsExpected")}),
        (StableStatus, "NoImage", {}),
    ],
)
async def test_condition_of_a_blocked_exception_is_cleared_at_success_unless_the_operator_may_have_set_it(
    status: type[Status], reason: str, left: dict[str, tuple[str, str]], restarted: bool
):
    blocked = [True]

    async def act(_: Doing, obj: Any, ctx: Context) -> None:
        if blocked[0]:
            raise Blocked(reason, "something is in the way")

    kind = kind_with(status)
    async with operated(doing(act, kind)) as world:
        obj = await world.create(thing(kind))
        obj = await world.until(obj, lambda it: it.status and it.status.conditions)
        assert {each.type: each.reason for each in obj.status.conditions} == dict.fromkeys(
            status.meanings, reason
        )
        blocked[0] = False
        if restarted:
            LAST[-1].obstacles.clear()
        await world.update(obj, lambda it: it.metadata.labels.update(a="b"))
        await asyncio.sleep(1)
        found = {each["type"]: (each["status"], each["reason"]) for each in stored_conditions(world)}
        if restarted and reason == "NoImage" and not left:  # the operator may have set these itself
            kept = {"Ready": ("False", "NoImage"), "ChildrenStable": ("True", "AsWanted")}
            left = {each: kept[each] for each in status.meanings}
        assert found == left


async def test_condition_set_by_the_operator_is_kept_when_the_object_is_unblocked():
    steps = iter(["set", "blocked", "set once"])

    async def act(_: Doing, obj: Any, ctx: Context) -> None:
        step = next(steps, "")
        if step == "blocked":
            raise Blocked("NoImage", "something is in the way")
        if step == "set":
            ctx.condition("Told", True, "Set")
            ctx.condition("Available", True, "Works")
        if step == "set once":
            ctx.condition("Available", True, "WorksAgain")

    kind = kind_with(ToldStatus)
    async with operated(doing(act, kind, conditions=tuple(MoreStatus.meanings))) as world:
        obj = await world.create(thing(kind))
        for label in "ab":
            await asyncio.sleep(1)
            await world.update(obj, lambda it, label=label: it.metadata.labels.update(a=label))
        await asyncio.sleep(1)
        await world.update(obj, lambda it: it.metadata.labels.clear())
        await asyncio.sleep(1)
        found = {each["type"]: (each["status"], each["reason"]) for each in stored_conditions(world)}
        assert found == {
            "Told": ("True", "Set"),
            "Available": ("True", "WorksAgain"),
            "Degraded": ("False", "AsExpected"),
        }


async def test_reconcile_is_retried_when_the_server_does_not_yet_serve_the_status_subresource(
    monkeypatch: pytest.MonkeyPatch,
):
    kind: Any = kind_with(TheirStatus | None)
    async with operated(doing(make_ready, kind)) as world:
        handle, refused = world.cluster.handle, list[str]()

        async def not_yet(request: Any) -> Any:
            if request.path.endswith("/status") and not refused:
                refused.append(request.path)
                raise not_found("test.example.com", "things", "a")  # this error names the object
            return await handle(request)

        monkeypatch.setattr(world.cluster, "handle", not_yet)
        obj = await world.create(thing(kind))
        await world.until(obj, lambda it: is_true(it.status and it.status.conditions, "Ready"))
        assert len(refused) == 1
    assert LAST[-1].forgotten == []
