"""Failed reconciles: the condition and the Event on the object, and how the condition is cleared."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from manager import Blocked, Context, Operator, Result, TerminalError
from manager.api import Resource, crd
from manager.kube.errors import (
    Conflict,
    Fenced,
    Forbidden,
    Invalid,
    NoMatch,
    NotFound,
    ServerError,
    ServiceUnavailable,
    TooManyRequests,
    Unreachable,
)
from manager_tools.codegen import custom_resource_definitions
from manager_tools.testing import World, operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import (
    Act,
    Doing,
    Greeting,
    GreetingSpec,
    GreetingStatus,
    doing,
    events,
    greeting,
    patch_status,
    settled,
)

pytestmark = pytest.mark.virtual_time

RESOURCE = "greetings.test.example.com"
FAILED = "the reconcile failed: "
STORED = greeting(namespace="default")


class Foreign(Resource, group="test.example.com", version="v1", plural="greetings", kind="Greeting"):
    """The kind Greeting, defined by another program."""

    spec: GreetingSpec = GreetingSpec()
    status: GreetingStatus = GreetingStatus()


def raising(*errors: BaseException | None) -> Act:
    """Return a reconcile that raises the errors in order, the last one repeatedly; None means success."""
    left = list(errors)

    async def act(operator: Doing, obj: Any, ctx: Context) -> None:
        error = left.pop(0) if len(left) > 1 else left[0]
        obj.status.text = obj.spec.name
        if error is not None:
            raise error
        ctx.condition("Available", True, "Works")

    return act


def failing(*errors: BaseException | None, **attributes: Any) -> AbstractAsyncContextManager[World]:
    """Run an operator with one greeting, whose reconciles raise the errors as `raising` says."""
    return operated(doing(raising(*errors), **attributes), objects=[greeting()])


def stored(world: World) -> dict[str, Any]:
    return dict(world.cluster.client.peek(RESOURCE, "default", "hello"))


def conditions(world: World) -> dict[str, tuple[str, str, str]]:
    found = (stored(world).get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each.get("reason", ""), each.get("message", "")) for each in found}


def reasons(world: World) -> dict[str, tuple[str, str]]:
    return {kind: each[:2] for kind, each in conditions(world).items()}


class Mute(TerminalError):
    def __str__(self) -> str:
        return self.args[0]  # type: ignore[no-any-return]


class Unpaid(Exception):
    """Exception whose text users may see."""


AT_ONCE = {
    "error with a declared reason": (Unpaid("invoice 7 is open"), "PaymentRefused", "invoice 7 is open"),
    "invalid": (Invalid(422, "Invalid", "Secret b is invalid"), "Invalid", "Secret b is invalid"),
    "quota": (Forbidden(403, "Forbidden", "exceeded quota: q"), "Forbidden", "exceeded quota: q"),
    "no kind": (NoMatch("the API server does not serve x"), "NoMatch", "the API server does not serve x"),
    "webhook is unreachable": (
        ServerError(500, "InternalError", 'Internal error occurred: failed calling webhook "w": no'),
        "ServerError",
        'Internal error occurred: failed calling webhook "w": no',
    ),
    "webhook answers 503": (
        ServiceUnavailable(503, "", 'admission webhook "w" denied the request: not now'),
        "ServiceUnavailable",
        'admission webhook "w" denied the request: not now',
    ),
    "terminal": (TerminalError("no such flavour"), "TerminalError", "no such flavour"),
    "refused connection": (ConnectionRefusedError("no door"), "ConnectionRefusedError", "no door"),
    "timeout in the operator": (TimeoutError("the store is slow"), "Timeout", "the store is slow"),
    "programming error": (KeyError("hunter2"), "KeyError", "KeyError; see the manager's log"),
    "error group": (
        ExceptionGroup("both", [Conflict(409, "Conflict", "changed"), ValueError("hunter2")]),
        "ValueError",
        "changed; ValueError; see the manager's log",
    ),
    "text is not UTF-8": (TerminalError("no \udcff here"), "TerminalError", "no \\udcff here"),
    "no text": (Mute(), "Mute", "Mute"),
    "long class name": (type("E" * 1025, (TerminalError,), {})("no"), "E" * 128, "no"),
    "invalid class name": (
        type("_Ünfit", (Exception,), {})("hunter2"),
        "nfit",
        "_Ünfit; see the manager's log",
    ),
}


@pytest.mark.parametrize(("error", "reason", "text"), AT_ONCE.values(), ids=AT_ONCE)
async def test_failed_reconcile_sets_degraded_immediately(error: Exception, reason: str, text: str):
    async with failing(error, errors={Unpaid: "PaymentRefused"}) as world:
        await asyncio.sleep(0.001)
        before = await settled(world, pause=1.0)
        assert conditions(world) == {
            "Available": ("Unknown", reason, FAILED + text),
            "Progressing": ("Unknown", reason, FAILED + text),
            "Degraded": ("True", reason, FAILED + text),
        }
        # Other status fields that the failed reconcile has set are not written.
        assert not stored(world)["status"].get("text")
        assert {each["observedGeneration"] for each in stored(world)["status"]["conditions"]} == {1}
        await asyncio.sleep(3600)
        assert world.cluster.store.version == before
        assert [(each[0], each[2]) for each in events(world)] == [(reason, 1)]


async def test_failed_reconcile_keeps_other_conditions_and_the_observed_generation():
    async with failing(None, TerminalError("too big")) as world:
        obj = await world.until(STORED, lambda it: it.status.observed_generation == 1)
        await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
        await settled(world, pause=1.0)
        status = stored(world)["status"]
        assert (status["observedGeneration"], status["text"]) == (1, "you")
        generations = {each["type"]: each["observedGeneration"] for each in status["conditions"]}
        assert generations == {"Available": 1, "Progressing": 2, "Degraded": 2}
        assert reasons(world)["Available"] == ("True", "Works")
        assert reasons(world)["Degraded"] == ("True", "TerminalError")


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (("Available", "Ready"), {"Ready": ("False", "Invalid"), "Available": ("True", "Works")}),
        (("Available", "Synced"), {"Available": ("Unknown", "Invalid"), "Synced": ("Unknown", "Invalid")}),
        (("Degraded", "Ready"), {"Degraded": ("True", "Invalid"), "Available": ("True", "Works")}),
    ],
    ids=["ready", "neither", "degraded"],
)
async def test_failed_reconcile_sets_the_declared_degraded_or_ready_condition_or_else_all_to_unknown(
    declared: tuple[str, ...], told: dict[str, tuple[str, str]]
):
    error = Invalid(422, "Invalid", "no")
    async with failing(None, error, error, None, conditions=declared) as world:
        obj = await world.until(STORED, lambda it: it.status.observed_generation == 1)
        told_of = recorded_events(world)
        await world.update(obj, lambda it: setattr(it.spec, "name", "me"))
        await world.until(obj, lambda _: told_of, timeout=1.0)
        assert told.items() <= reasons(world).items()
        await settled(world, pause=1.0)
        after = {"Available": ("True", "Works")}
        assert reasons(world) == after | ({"Degraded": ("False", "AsExpected")} if "Degraded" in told else {})
        assert told_of == ["Invalid"]


def recorded_events(world: World) -> list[str]:
    """Replace the Event recorder; return a list that receives the reason of each later Event."""
    recorded: list[str] = []

    def record(obj: Resource, sort: str, reason: str, message: str) -> None:
        recorded.append(reason)

    world.manager.events.event = record  # type: ignore[method-assign,assignment]
    return recorded


TRANSIENT = [
    Conflict(409, "Conflict", "the object has been modified"),
    NotFound(404, "NotFound", 'namespaces "x" not found'),
    Fenced("not the leader"),
    Unreachable("no route"),
    TooManyRequests(429, "TooManyRequests", "busy"),
    ServerError(500, "InternalError", "etcdserver: leader changed"),
    ServiceUnavailable(503, "", "starting"),
    ExceptionGroup("both", [Unreachable("no route"), Conflict(409, "Conflict", "modified")]),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
async def test_transient_failure_is_reported_after_ten_consecutive_failures(error: Exception):
    for times, reported in ((9, False), (10, True)):
        async with failing(*[error] * times, None) as world:
            seen = recorded_events(world)
            await world.until(STORED, lambda it: it.status.observed_generation == 1, timeout=3600)
            assert bool(seen) is reported
            assert reasons(world) == {"Available": ("True", "Works")} | (
                {"Degraded": ("False", "AsExpected")} if reported else {}
            )


async def test_transient_failure_count_restarts_after_a_different_failure():
    lost, no = Conflict(409, "Conflict", "modified"), Invalid(422, "Invalid", "no")
    async with failing(*[lost] * 9, no, *[lost] * 9, no) as world:
        seen = recorded_events(world)
        await asyncio.sleep(6 * 3600)
        assert seen == ["Invalid"]


async def test_failure_event_is_repeated_for_a_new_reason_but_not_for_a_new_message():
    errors = [
        Invalid(422, "Invalid", "field a"),
        Invalid(422, "Invalid", "field b"),
        Forbidden(403, "Forbidden", "failed quota: q"),
    ]
    async with failing(*errors) as world:
        seen = recorded_events(world)
        messages = set()
        for _ in range(200):
            await asyncio.sleep(0.0005)
            messages.add(conditions(world).get("Degraded"))
        assert seen == ["Invalid", "Forbidden"]
        assert {each[2] for each in messages if each} == {FAILED + str(each) for each in errors}
        assert set(reasons(world).values()) == {("True", "Forbidden"), ("Unknown", "Forbidden")}


async def test_failure_message_that_differs_only_in_numbers_is_written_once_a_minute():
    ports = itertools.count(40_000)

    async def act(operator: Doing, obj: Any, ctx: Context) -> None:
        raise ConnectionResetError(f"127.0.0.1:{next(ports)} was reset")

    async with operated(doing(act), objects=[greeting()]) as world:
        await asyncio.sleep(50)
        assert conditions(world)["Degraded"][2] == f"{FAILED}127.0.0.1:40000 was reset"
        await asyncio.sleep(600)
        assert conditions(world)["Degraded"][2] > f"{FAILED}127.0.0.1:40010 was reset"
        assert [each[2] for each in events(world)] == [1]


async def test_failure_message_length_is_limited():
    async with failing(TerminalError("x" * 100_000)) as world:
        await settled(world, pause=1.0)
        assert 1000 < len(conditions(world)["Degraded"][2]) < 1100
        [(_, message, _)] = events(world)
        assert len(message) <= 1024


async def test_failure_causes_an_event_when_the_crd_has_no_status_subresource():
    @crd(status=False)
    class Theirs(Foreign, group="test.example.com", version="v1", plural="greetings", kind="Greeting"):
        """Greeting without the status subresource."""

    async with operated(
        doing(raising(Invalid(422, "Invalid", "no")), Foreign), objects=[greeting()], kinds=[Theirs]
    ) as world:
        await asyncio.sleep(60)
        assert [(each[0], each[2]) for each in events(world)] == [("Invalid", 1)]


async def test_failure_condition_is_cleared_by_the_first_success_of_the_next_process():
    said = {"type": "Degraded", "status": "True", "reason": "Invalid", "message": f"{FAILED}no"}
    said["lastTransitionTime"] = "2026-11-22T10:00:00Z"
    theirs = {**said, "type": "Theirs", "message": "the reconcile was a success"}
    others = {**said, "type": "Synced", "status": "Unknown"}
    async with failing(None) as world:
        await settled(world, pause=1.0)
        await patch_status(world, STORED, conditions=[said, theirs, others])
        await settled(world, pause=1.0)
        assert reasons(world) == {
            "Degraded": ("False", "AsExpected"),
            "Theirs": ("True", "Invalid"),
            "Available": ("True", "Works"),
        }


async def test_failure_condition_is_replaced_when_on_error_handles_the_retry_or_the_retry_raises_blocked():
    async def on_error(self: Doing, obj: Any, error: Exception, ctx: Context) -> Result | None:
        if isinstance(error, LookupError):
            ctx.condition("Available", False, "NoWord", str(error))
            return None
        return await Operator.on_error(self, obj, error, ctx)

    invalid = Invalid(422, "Invalid", "no")
    async with failing(invalid, LookupError("no word"), on_error=on_error) as world:
        await settled(world, pause=1.0)
        assert reasons(world) == {"Available": ("False", "NoWord"), "Degraded": ("False", "AsExpected")}
    async with failing(invalid, Blocked("NoImage", "none")) as world:
        await settled(world, pause=1.0)
        assert set(reasons(world).values()) == {("False", "NoImage"), ("True", "NoImage")}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Forbidden(403, "Forbidden", "no right"), ["Invalid"]),
        (Invalid(422, "Invalid", "status.a: Required value", {"causes": [{}]}), ["Invalid"]),
        (Unreachable("no route"), []),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_failure_causes_an_event_when_the_server_refuses_the_status(
    refusal: Exception, told: list[str]
):
    async def refuse(*_: Any, **__: Any) -> None:
        raise refusal

    def setup(self: Doing) -> None:
        Doing.setup(self)
        self.client.status.report = refuse  # type: ignore[assignment]

    async with failing(Invalid(422, "Invalid", "no"), setup=setup) as world:
        await asyncio.sleep(600)
        assert [each[0] for each in events(world)] == told


async def test_overridden_reconcile_failed_method_sets_only_its_own_condition():
    def reconcile_failed(self: Doing, by: Blocked, ctx: Context) -> None:
        assert isinstance(by.__cause__, Unpaid)
        ctx.condition("Available", False, "Unpaid", str(by.__cause__), event="Warning")

    async with failing(Unpaid("7"), reconcile_failed=reconcile_failed) as world:
        await settled(world, pause=1.0)
        assert conditions(world) == {"Available": ("False", "Unpaid", "7")}
        assert [(each[0], each[2]) for each in events(world)] == [("Unpaid", 1)]


SEEN = {"type": "Available", "status": "True", "reason": "Seen", "message": "", "extra": 1}
SEEN["lastTransitionTime"] = "2026-11-22T10:00:00Z"
UNFIT: dict[str, tuple[dict[str, Any], bool]] = {
    "without a status": ({"spec": {"name": 5}}, True),
    "with conditions": ({"spec": [], "status": {"text": "kept", "conditions": [SEEN]}}, True),
    "with an unfit status": ({"status": {"text": 7}}, True),
    "with unfit conditions": ({"status": {"conditions": ["broken"]}}, False),
    "with a text as its status": ({"status": "broken"}, False),
}
"""Fields of objects that do not fit the model, and whether such an object gets conditions."""


@pytest.fixture
def definition() -> dict[str, Any]:
    """Return a CRD that accepts any fields; a fixture, because its creation blocks the event loop."""
    [definition] = custom_resource_definitions([Greeting])
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return definition


@pytest.mark.parametrize(("fields", "gets_conditions"), UNFIT.values(), ids=UNFIT)
async def test_undecodable_object_gets_an_event_and_a_degraded_condition_unless_its_conditions_are_unreadable(
    fields: dict[str, Any], gets_conditions: bool, definition: dict[str, Any]
) -> None:
    async with operated(doing(raising(None), Foreign, extends_status=True)) as world:
        api = world.cluster.client
        await api.create("customresourcedefinitions.apiextensions.k8s.io", "", definition)
        await asyncio.sleep(60)
        body = {"metadata": {"name": "hello"}, **fields, "status": None}
        created = await api.create(RESOURCE, "default", body)
        if "status" in fields:
            created = {**created, "status": fields["status"]}
            await api.update(RESOURCE, "default", created, subresource="status")
        await asyncio.sleep(120)
        if gets_conditions:
            told = conditions(world)
            assert told.keys() == {"Available", "Progressing", "Degraded"}
            assert told["Degraded"][:2] == ("True", "Undecodable")
            assert told["Degraded"][2].startswith(f"{FAILED}Greeting default/hello: ")
        if "text" in fields.get("status", ()):
            assert stored(world)["status"]["text"] == fields["status"]["text"]
        if "extra" in str(fields):
            assert stored(world)["status"]["conditions"][0] == fields["status"]["conditions"][0]
        assert [(each[0], each[2]) for each in events(world)] == [("Undecodable", 1)]
        if gets_conditions:
            mended = {"spec": {"name": "me"}, "status": {"conditions": stored(world)["status"]["conditions"]}}
            await api.update(RESOURCE, "default", {**stored(world), **mended})
            await api.update(RESOURCE, "default", {**stored(world), **mended}, subresource="status")
            await asyncio.sleep(60)
            assert reasons(world) == {"Available": ("True", "Works"), "Degraded": ("False", "AsExpected")}


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (
            ("Available", "Progressing", "Degraded"),
            {"Progressing": ("True", "CleaningUp"), "Degraded": ("False", "AsExpected")},
        ),
        (("Available", "Degraded"), {"Degraded": ("False", "CleaningUp")}),
        (("Available", "Ready"), {"Ready": ("False", "CleaningUp")}),
        (("Available", "Synced"), {"Available": ("Unknown", "CleaningUp")}),
    ],
    ids=["progressing", "degraded", "ready", "neither"],
)
async def test_cleanup_that_recovers_clears_its_failure_condition_and_reports_progress(
    declared: tuple[str, ...], told: dict[str, tuple[str, str]]
):
    async def cleanup(self: Doing, obj: Any, ctx: Context) -> Result:
        self.seen.append("cleanup")
        if len(self.seen) < 4:
            raise LookupError("not yet")
        return Result(requeue_after=600)

    async with failing(None, cleanup=cleanup, conditions=declared) as world:
        obj = await world.until(STORED, lambda it: it.status.observed_generation == 1)
        await world.delete(obj)
        await settled(world, pause=1.0)
        assert reasons(world) == {"Available": ("True", "Works")} | told


async def test_object_recreated_during_a_reconcile_causes_no_error(log_lines: LogLines):
    async def act(operator: Doing, obj: Any, ctx: Context) -> None:
        obj.status.text = "seven"
        if len(operator.seen) == 1:
            await world.cluster.client.delete(RESOURCE, "default", "hello")
            await world.cluster.client.create(RESOURCE, "default", {"metadata": {"name": "hello"}})

    async with operated(doing(act)) as world:
        await world.create(greeting())
        await settled(world, pause=1.0)
        assert stored(world)["status"]["text"] == "seven"
        assert not [each for each in log_lines if each["log_level"] in {"error", "warning"}]
        assert conditions(world) == {}
