from __future__ import annotations

import asyncio
from bisect import bisect
from collections import Counter
from itertools import cycle

import pytest

from manager.controller.failure import Cause
from manager.controller.reconciler import Request, Result
from manager.kube.errors import (
    BadRequest,
    Conflict,
    ConnectionLost,
    Forbidden,
    Invalid,
    KubeError,
    NoMatch,
    ServerError,
    ServiceUnavailable,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from manager.telemetry.runs import current_record
from tests.unit.controller.doubles import Reconciler, Running, now

pytestmark = pytest.mark.virtual_time


OUTAGE = 3600.0
ERRORS = "controller_runtime_reconcile_errors_total"


class Server:
    """Server that answers a write after 0.05 s.

    All writes fail during an outage; later, writes of `broken` objects fail with `refusal`.
    """

    def __init__(self, *errors: Exception, until: float = OUTAGE, refusal: KubeError | None = None) -> None:
        self.errors = cycle(errors)
        self.refusal = refusal or errors[0]
        self.until = until
        self.broken: set[str] = set()
        self.done: dict[str, float] = {}
        self.triggers: set[str] = set()

    async def write(self, request: Request) -> Result | None:
        self.triggers |= {each.text for each in current_record().triggers}
        await asyncio.sleep(0.05)
        if now() < self.until:
            raise next(self.errors)
        if request.name in self.broken:
            raise self.refusal
        self.done.setdefault(request.name, now())
        return None


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("no route"),
        ConnectionLost("reset"),
        ServiceUnavailable(503),
        ServerError(500),
        TooManyRequests(429),
        Unauthorized(401),
        Forbidden(403, "Forbidden", "no right"),
        NoMatch("the API server does not serve x"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_controller_retries_all_failed_objects_soon_after_an_outage(error: KubeError):
    server = Server(error)
    async with Running(Reconciler(server.write)) as running:
        running.add(*(f"{number}" for number in range(20)))
        await asyncio.sleep(OUTAGE + 60)
        assert len(server.done) == 20
        assert max(server.done.values()) < OUTAGE + 30
        assert running.backing_off == 0


DENIALS = [
    Forbidden(403, "Forbidden", 'admission webhook "w" denied the request: no'),
    ServerError(500, "InternalError", 'admission webhook "w" denied the request: broken'),
    Forbidden(403, "Forbidden", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
    Forbidden(
        403, "Forbidden", 'pods "p" is forbidden: violates PodSecurity "restricted:latest": privileged'
    ),
    Forbidden(403, "Forbidden", 'pods "p" is forbidden: maximum cpu usage per Container is 1, not 2'),
    Forbidden(403, "Forbidden", 'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: c'),
    BadRequest(400, "BadRequest", ".spec.foo: field not declared in schema"),
    Invalid(422, "Invalid", "selector is immutable"),
    TooLarge(413, "RequestEntityTooLarge", "too long"),
]


@pytest.mark.parametrize("error", DENIALS, ids=lambda error: error.message[-30:])
def test_refusal_of_an_object_by_the_server_does_not_count_as_outage(error: KubeError):
    assert Cause.of(error).awaited is None


async def test_controller_increases_its_retry_rate_gradually_after_an_outage():
    server = Server(Unreachable("no route"))
    async with Running(Reconciler(server.write), max_concurrent_reconciles=100) as running:
        running.add(*(f"{number}" for number in range(100)))
        await asyncio.sleep(OUTAGE + 59)
        assert len(server.done) == 100
        times = sorted(server.done.values())
        assert bisect(times, times[0] + 0.25) <= 16
        # Each answer releases two objects, whose writes take 0.05 s.
        assert all(earlier <= 2 * bisect(times, time - 0.049) for earlier, time in enumerate(times))
    assert "the API server has answered" in server.triggers


@pytest.mark.parametrize(
    "errors",
    [
        [Unreachable("no route")],
        [ServerError(500), ServiceUnavailable(503)],
        [ServiceUnavailable(503), ExceptionGroup("two", [ServerError(500), ServiceUnavailable(503)])],
        [ServiceUnavailable(503), Forbidden(403)],
    ],
    ids=["one error", "alternating", "error group", "alternating with forbidden"],
)
async def test_controller_makes_few_reconcile_attempts_during_an_outage(errors: list[Exception]):
    server = Server(*errors)
    async with Running(Reconciler(server.write)) as running:
        running.add(*(f"{number}" for number in range(40)))
        await asyncio.sleep(OUTAGE / 2)
        before = running.sample(ERRORS)
        await asyncio.sleep(OUTAGE / 2 - 1)
        # For each error one probe every 10 to 15 seconds, and each object at the end of its back-off.
        assert running.sample(ERRORS) - before < (OUTAGE / 2 / 10 + 40 * 4) * len(errors)


async def test_controller_probes_the_server_with_a_different_failed_object_each_time():
    server = Server(ServiceUnavailable(503))
    async with Running(Reconciler(server.write)) as running:
        running.add(*"abcde")
        await asyncio.sleep(OUTAGE - 200)
        tried = Counter(name for name, at in running.reconciler.calls if at > OUTAGE - 1000)
        assert len(tried) == 5
        assert max(tried.values()) <= min(tried.values()) + 3


async def test_permanently_failing_objects_do_not_delay_other_objects_and_are_rarely_retried():
    server = Server(ServiceUnavailable(503), until=600)
    server.broken = {f"{number}" for number in range(50)}
    async with Running(Reconciler(server.write)) as running:
        running.add(*(f"{number}" for number in range(100)))
        await asyncio.sleep(700)
        assert len(server.done) == 50
        assert max(server.done.values()) < 700
        before = len(running.reconciler.calls)
        for number in range(100):
            running.add(f"new-{number}")  # its success is no reason to retry the broken objects
            await asyncio.sleep(1)
        assert len(running.reconciler.calls) - before < 100 + 100 / 10 + 50


@pytest.mark.parametrize("before", [None, ServiceUnavailable(503)], ids=["", "after an outage"])
@pytest.mark.parametrize(
    "refusal",
    [
        Forbidden(403, "Forbidden", "exceeded quota"),
        ServerError(500, "InternalError", "failed calling webhook: too much"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_refused_writes_in_one_namespace_do_not_delay_objects_of_other_namespaces(
    before: KubeError | None, refusal: KubeError
):
    server = Server(before or refusal, refusal=refusal, until=600)
    server.broken = {f"{number}" for number in range(100)}
    async with Running(Reconciler(server.write), max_concurrent_reconciles=30) as running:
        running.add(*server.broken, namespace="greedy")
        running.add(*(f"other {number}" for number in range(9)))
        await asyncio.sleep(600 - 1)
        calls = len(running.reconciler.calls)
        await asyncio.sleep(31)
        assert len(server.done) == 9
        # One probe for each namespace, objects whose back-off ends, and objects that an answer releases.
        assert len(running.reconciler.calls) - calls < 100 * 31 / 500 + 60 + 2 * 100 * bool(before)


@pytest.mark.parametrize("since", [0, OUTAGE - 0.01], ids=["many failures", "few failures"])
async def test_outage_ends_when_the_server_answers_a_failing_object_with_a_conflict(since: float):
    answered: dict[str, float] = {}

    async def act(request: Request) -> Result | None:
        if now() < OUTAGE or (request.name == "b" and "a" not in answered):
            raise Unreachable("no route")
        answered.setdefault(request.name, now())
        if request.name == "a":
            raise Conflict(409)
        return None

    async with Running(Reconciler(act)) as running:
        running.add("b")
        await asyncio.sleep(since)
        running.add("a")
        await asyncio.sleep(OUTAGE - since + 60)
        assert answered["b"] - answered["a"] < 0.25  # the next probe would be later


async def test_controller_probes_with_another_object_when_the_probing_object_is_deleted():
    gone: set[str] = set()
    server = Server(Unreachable("no route"))

    async def act(request: Request) -> Result | None:
        return None if request.name in gone else await server.write(request)

    async with Running(Reconciler(act)) as running:
        running.add("a", "b", "c")
        await asyncio.sleep(OUTAGE / 2)
        gone |= {"a", "b"}
        running.add("a", "b")
        await asyncio.sleep(OUTAGE / 2 + 30)
        assert server.done.keys() == {"c"}
