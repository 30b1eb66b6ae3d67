from __future__ import annotations

import asyncio
import logging
import math
import random
import string
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from manager.api import ObjectKey, Resource
from manager.client import Undecodable
from manager.controller.reconciler import Priority, Request, Result, TerminalError
from manager.kube import errors
from manager.telemetry.logs import BridgeHandler, reconcile_log
from manager.telemetry.runs import Trigger
from tests.unit.cache.objects import Node, Pod
from tests.unit.conftest import LogLines
from tests.unit.controller.doubles import Reconciler, Running, now, resisting, taking, turns

pytestmark = pytest.mark.virtual_time

TOTAL = "controller_runtime_reconcile_total"
ERRORS = "controller_runtime_reconcile_errors_total"
TERMINAL = "controller_runtime_terminal_reconcile_errors_total"
PANICS = "controller_runtime_reconcile_panics_total"
TIMEOUTS = "controller_runtime_reconcile_timeouts_total"


def answering(*answers: Result | BaseException | None) -> Reconciler:
    """Return a reconciler that returns or raises these answers one after another, then returns None."""
    left = list(answers)

    async def act(request: Request) -> Result | None:
        answer = left.pop(0) if left else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Reconciler(act)


async def ran(reconciler: Reconciler, *, seconds: float = 1000, **options: object) -> Running:
    """Run a controller for `seconds` with one request, for object a."""
    async with Running(reconciler, **options) as running:
        running.add("a")
        await asyncio.sleep(seconds)
    return running


class Odd(BaseException):
    """BaseException that is not a subclass of Exception."""


def undecodable(kind: type[Resource], name: str) -> Undecodable:
    with pytest.raises(ValidationError) as caught:
        Pod.decode(b'{"metadata": {"name": 1}}')
    return Undecodable(kind.gvk, ObjectKey("ns", name), caught.value)


FAULTS = [TypeError("x"), KeyError("x"), AttributeError("x"), AssertionError(), ZeroDivisionError()]
NO, OTHER = TerminalError("no such flavour"), OSError("other")
# Answers of successive reconciles, the start of each reconcile in seconds, and metrics besides success.
OUTCOMES: dict[str, tuple[list[Any], list[float], dict[str, int]]] = {
    "success": ([None], [0], {}),
    "an empty result": ([Result()], [0], {}),
    "requeue_after": ([Result(requeue_after=30)], [0, 30], {"requeue_after": 1}),
    "negative requeue_after": ([Result(requeue_after=-1)] * 3, [0, 0.005, 0.015, 0.035], {"requeue": 3}),
    "requeue": ([Result(requeue=True)] * 4, [0, 0.005, 0.015, 0.035, 0.075], {"requeue": 4}),
    "an error": ([errors.ServiceUnavailable(503)] * 3, [0, 0.005, 0.015, 0.035], {"error": 3}),
    "a terminal error": ([OTHER, NO], [0, 0.005], {"error": 2, "terminal": 1}),
    "the object does not fit its model": ([undecodable(Pod, "a")], [0], {"error": 1, "terminal": 1}),
    "another object does not fit its model": ([undecodable(Pod, "b")], [0, 0.005], {"error": 1}),
    "an object of another kind": ([undecodable(Node, "a")], [0, 0.005], {"error": 1}),
    "a group of terminal errors": ([ExceptionGroup("all", [NO, NO])], [0], {"error": 1, "terminal": 1}),
    "a group with one terminal error": ([ExceptionGroup("both", [NO, OTHER])], [0, 0.005], {"error": 1}),
    "programming errors": (FAULTS, [0, 0.005, 0.015, 0.035, 0.075, 0.155], {"error": 5, "panics": 5}),
    "a result of the wrong type": (["done"], [0, 0.005], {"error": 1, "panics": 1}),
    "a group of base exceptions": ([BaseExceptionGroup("odd", [Odd(), OTHER])], [0, 0.005], {"error": 1}),
}


@pytest.mark.parametrize(("answers", "times", "counted"), OUTCOMES.values(), ids=OUTCOMES)
async def test_reconcile_result_or_error_determines_retry_delays_and_metric_counts(
    answers: list[Any], times: list[float], counted: dict[str, int]
):
    running = await ran(answering(*answers), seconds=5000)
    assert running.reconciler.times == pytest.approx(times, rel=0.3)
    for result in ("requeue_after", "requeue", "error"):
        assert running.sample(TOTAL, result=result) == counted.get(result, 0), result
    assert running.sample(TOTAL, result="success") == (0 if "terminal" in counted else 1)
    assert running.sample(ERRORS) == counted.get("error", 0)
    assert running.sample(TERMINAL) == counted.get("terminal", 0)
    assert running.sample(PANICS) == counted.get("panics", 0)
    if "terminal" not in counted:
        assert running.backing_off == 0


async def test_requeue_after_resets_the_backoff():
    answers = (OSError(), OSError(), OSError(), Result(requeue_after=10), OSError())
    running = await ran(answering(*answers))
    times = running.reconciler.times
    assert times[5] - times[4] == pytest.approx(0.0055, abs=0.001)


async def test_requeue_after_with_jitter_is_never_earlier_than_requested():
    running = await ran(answering(*[Result(requeue_after=10, jitter=0.5)] * 20))
    gaps = [later - earlier for earlier, later in pairwise(running.reconciler.times)]
    assert len(gaps) == 20
    assert 10 <= min(gaps) < 11
    assert 14 < max(gaps) <= 15


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"jitter": 0.1}, "jitter must be a fraction of requeue_after"),
        ({"requeue_after": 1.0, "jitter": -0.1}, "jitter must be a fraction of requeue_after"),
        ({"jitter": math.nan}, "jitter must be a fraction of requeue_after"),
        ({"requeue_after": math.inf}, "requeue_after"),
        ({"requeue_after": math.nan}, "requeue_after"),
    ],
)
def test_result_refuses_an_invalid_jitter_or_requeue_after(wrong: dict[str, float], field: str):
    with pytest.raises(ValueError, match=field):
        Result(**wrong)


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        (Result(requeue_after=1), ["a", "blocker", "b", "a"]),
        (Result(requeue_after=1, priority=Priority.HIGH), ["a", "blocker", "a", "b"]),
    ],
)
async def test_requeue_keeps_the_priority_unless_the_result_has_a_priority(answer: Result, order: list[str]):
    async def act(request: Request) -> Result | None:
        if request.name == "blocker":
            await asyncio.sleep(5)
        return answer if request.name == "a" and len(running.reconciler.calls) == 1 else None

    async with Running(Reconciler(act), max_concurrent_reconciles=1) as running:
        running.add("a", priority=Priority.LOW)
        await turns()
        running.add("blocker")
        await asyncio.sleep(2)
        running.add("b")
        await asyncio.sleep(5)
        assert running.reconciler.names == order


async def test_object_changes_during_an_outage_do_not_lengthen_the_backoff():
    async def fail_for_eleven_seconds(request: Request) -> Result | None:
        if now() < 11:
            raise OSError("the server is gone")
        return None

    async with Running(Reconciler(fail_for_eleven_seconds)) as running:
        for _ in range(110):
            running.add("a")
            await asyncio.sleep(0.1)
        await asyncio.sleep(1000)
        assert len(running.reconciler.calls) > 110
        assert running.reconciler.times[-1] < 2 * 11
        assert running.sample(TOTAL, result="success") == 1


async def test_terminal_error_leaves_the_backoff_unchanged():
    failures = [OSError()] * 6
    async with Running(answering(*failures, TerminalError("no such flavour"), OSError())) as running:
        running.add("a")
        await asyncio.sleep(1000)
        running.add("a")
        await asyncio.sleep(1000)
        again, then = running.reconciler.times[-2:]
        assert again == 1000
        assert then - again == pytest.approx(0.005 * 2**6, rel=0.15)
        assert running.backing_off == 0


def overflow(depth: int = 0) -> int:
    return overflow(depth + 1) + 1


async def wait_for_something_cancelled() -> None:
    other = asyncio.create_task(asyncio.sleep(10))
    other.cancel()
    await other


ENDS = [SystemExit(1), GeneratorExit(), Odd(), BaseExceptionGroup("stop", [SystemExit(1)])]


@pytest.mark.parametrize(
    "fault",
    [*ENDS, overflow, wait_for_something_cancelled],
    ids=lambda fault: getattr(fault, "__name__", repr(fault)),
)
async def test_controller_survives_a_reconcile_that_raises_a_fatal_exception(fault: Any):
    async def act(request: Request) -> Result | None:
        if isinstance(fault, BaseException):
            raise fault
        done = fault()
        return await done if asyncio.iscoroutine(done) else None

    async with Running(Reconciler(act)) as running:
        running.add("a")
        await asyncio.sleep(0.05)
        assert running.sample(ERRORS) == len(running.reconciler.calls) > 2
        assert running.sample(PANICS) == (running.sample(ERRORS) if fault is overflow else 0)
        assert not running.task.done()


@pytest.mark.parametrize(
    ("how", "times"), [("ends", [0, 60, 120]), ("succeeds", [0, 61, 122]), ("raises", [0, 61, 122])]
)
async def test_reconcile_beyond_its_timeout_is_cancelled_counted_logged_and_retried(
    how: str, times: list[float], log_lines: LogLines
):
    reconciler = Reconciler(resisting(how, seconds=1 if how != "ends" else 0))
    async with Running(reconciler, reconcile_timeout=60) as running:
        running.add("a")
        await asyncio.sleep(150)
        assert reconciler.times == pytest.approx(times, abs=0.1)
        assert running.sample(TIMEOUTS) == 2
        assert running.sample(ERRORS) == running.sample(TOTAL, result="error") == 2
        assert running.sample(TOTAL, result="success") == running.sample(PANICS) == 0
    line = next(line for line in log_lines if line["event"] == "reconcile timed out")
    assert line["timeout"] == 60
    assert isinstance(line["exc_info"], OSError if how == "raises" else TimeoutError)


async def impatient(request: Request) -> None:
    async with asyncio.timeout(1):
        await asyncio.sleep(10)


@pytest.mark.parametrize(
    ("act", "limit", "seconds", "errors"), [(impatient, 60, 1.003, 1), (resisting("ends"), None, 900, 0)]
)
async def test_reconcile_timeout_metric_is_zero_when_the_reconciler_raises_timeout_error_or_no_limit_is_set(
    act: Any, limit: float | None, seconds: float, errors: int
):
    running = await ran(Reconciler(act), seconds=seconds, reconcile_timeout=limit)
    assert (running.sample(TIMEOUTS), running.sample(ERRORS)) == (0, errors)


async def test_failure_log_contains_object_and_error_and_traceback_of_unexpected_errors(log_lines: LogLines):
    surprise = RuntimeError("who would have thought")
    group = ExceptionGroup("several", [OSError("one"), ExceptionGroup("more", [OSError("two"), KeyError()])])
    outage = errors.ServiceUnavailable(503, "", "etcd is on holiday")
    async with Running(answering(outage, surprise, TerminalError("no"), OSError("disk"), group)) as running:
        running.add("a")
        await asyncio.sleep(1)
        running.add("a")
        await asyncio.sleep(1)
    line, *_ = lines = [line for line in log_lines if line["event"] == "reconcile failed"]
    assert line["log_level"] == "error"
    assert (line["controller"], line["namespace"], line["name"]) == ("test", "ns", "a")
    assert (line["error"], line["error_type"]) == ("etcd is on holiday", "ServiceUnavailable")
    assert line["retry_in"] == pytest.approx(0.005, rel=0.2)
    assert line["retries"] == 0
    assert len(line["reconcile_id"]) == 16
    assert line["at"].startswith("tests/unit/controller/")
    assert [line.get("exc_info") for line in lines] == [None, surprise, None, None, group]
    assert "retry_in" not in lines[2]
    assert lines[4]["error"] == "one; two; KeyError", "the line names all errors of a group"


async def test_failure_log_uses_error_level_only_after_ten_consecutive_conflicts(log_lines: LogLines):
    await ran(answering(*[errors.Conflict(409, "Conflict", "changed")] * 13), seconds=30)
    levels = [line["log_level"] for line in log_lines if line["event"] == "reconcile failed"]
    assert levels == ["info"] + ["debug"] * 9 + ["error"] + ["debug"] * 2


async def test_failure_log_is_at_debug_level_when_the_reconciled_object_is_not_found(log_lines: LogLines):
    gone = errors.NotFound(404, "NotFound", 'foos "a" not found', {"name": "a", "kind": "foos"})
    running = await ran(answering(gone, gone), seconds=30)
    assert running.sample(ERRORS) == 2
    assert {line["log_level"] for line in log_lines if "failed" in line["event"]} == {"debug"}


def failure_lines(log_lines: LogLines) -> LogLines:
    """Return the log lines above debug level that are about reconciles."""
    return [line for line in log_lines if "reconcile" in line["event"] and line["log_level"] != "debug"]


async def test_failure_log_counts_the_objects_that_fail_for_the_same_reason(log_lines: LogLines):
    async def forbid_for_five_minutes(request: Request) -> Result | None:
        if now() < 300:
            message = f'foos "{request.name}" is forbidden: User "operator" cannot patch resource "foos"'
            raise errors.Forbidden(403, "Forbidden", message, {"name": request.name, "kind": "foos"})
        return None

    async with Running(Reconciler(forbid_for_five_minutes)) as running:
        running.add(*(f"{number}" for number in range(100)))
        await asyncio.sleep(200)
        assert running.sample("operator_manager_failing_objects") == 100
        await asyncio.sleep(1000)
        assert running.sample("operator_manager_failing_objects") == 0
        failures = running.sample(ERRORS)
    *failed, ended = failure_lines(log_lines)
    assert [line["log_level"] for line in failed] == ["error"] * 3
    assert "times" not in failed[0]
    assert [line["objects"] for line in failed[1:]] == [100, 100]
    assert (ended["log_level"], ended["event"]) == ("info", "reconciles succeed again")
    assert (ended["failures"], ended["error_type"]) == (failures, "Forbidden")
    assert failures > 1_000


async def test_failure_log_reports_the_end_of_an_error_when_no_object_still_has_it(log_lines: LogLines):
    async def act(request: Request) -> Result | None:
        if request.name == "a" and now() > 10:
            raise errors.Invalid(422, "Invalid", "odd")
        if now() < 100:
            raise errors.Forbidden(403, "Forbidden", "not yet")
        return None

    async with Running(Reconciler(act)) as running:
        running.add("a", "b")
        await asyncio.sleep(1000)
    ended = [line for line in failure_lines(log_lines) if line["event"] == "reconciles succeed again"]
    assert [line["error_type"] for line in ended] == ["Forbidden"]


async def test_failure_log_has_a_line_for_each_new_error_while_errors_are_few(log_lines: LogLines):
    failures: dict[str, Exception] = {
        "a": errors.Unreachable("no route"),
        "b": errors.Forbidden(403, "Forbidden", 'pods "b" is forbidden: exceeded quota'),
        "c": errors.Forbidden(403, "Forbidden", 'pods "c" is forbidden: User "x" cannot create'),
        "d": OSError("disk"),
        "e": KeyError("e"),
    }
    failures |= {
        name: errors.Invalid(422, "Invalid", f'Foo "{name}" is invalid: spec.size: Required value')
        for name in (f"{number}" for number in range(200))
    }

    async def fail(request: Request) -> Result | None:
        raise failures[request.name]

    names = list(failures)
    async with Running(Reconciler(fail)) as running:
        for name in names[:5]:
            running.add(name)
            await asyncio.sleep(1)
        assert [line["name"] for line in failure_lines(log_lines)] == names[:5]
        running.add(*names[5:25])
        await asyncio.sleep(30)
        assert sorted(line["name"] for line in failure_lines(log_lines)) == sorted(names[:25])
        running.add(*names[25:])
        await asyncio.sleep(20)
        assert len(failure_lines(log_lines)) < 25 + 30


async def test_failure_log_is_limited_when_an_object_fails_and_succeeds_alternately(log_lines: LogLines):
    running = await ran(answering(*[OSError("now"), Result(requeue_after=0.1)] * 1000), seconds=100)
    assert running.sample(ERRORS) > 900
    assert len(failure_lines(log_lines)) < 2 * 40 + 10


async def test_reconcile_log_lines_contain_the_request_and_the_reconcile_id(log_lines: LogLines):
    async def chatty(request: Request) -> Result | None:
        reconcile_log().info("hello")
        record = logging.LogRecord("library", logging.INFO, __file__, 1, "hello from a library", (), None)
        BridgeHandler().handle(record)
        async with asyncio.TaskGroup() as group:
            group.create_task(say_more())
        return None

    async def say_more() -> None:
        reconcile_log().info("hello from a task")

    async with Running(Reconciler(chatty)) as running:
        running.add("a", "b")
        await turns()
    hellos = [line for line in log_lines if line["event"].startswith("hello")]
    assert [line["name"] for line in hellos] == ["a", "a", "b", "b", "a", "b"]
    assert all(line["controller"] == "test" and line["namespace"] == "ns" for line in hellos)
    ids = {line["name"]: line["reconcile_id"] for line in hellos}
    assert ids["a"] != ids["b"]
    assert all(line["reconcile_id"] == ids[line["name"]] for line in hellos)


async def test_event_to_reconcile_metric_measures_the_time_since_the_watch_event():
    async with Running(taking(2), max_concurrent_reconciles=1) as running:
        await asyncio.sleep(100)
        arrived = now()
        running.add("a", trigger=Trigger("event", arrived))
        running.add("b", trigger=Trigger("event", arrived))
        running.add("c")
        await asyncio.sleep(10)
        assert running.sample("operator_manager_event_to_reconcile_seconds_sum") == pytest.approx(2)
        assert running.sample("operator_manager_event_to_reconcile_seconds_count") == 2
        assert running.sample("controller_runtime_reconcile_time_seconds_sum") == pytest.approx(6)


async def test_failure_log_lines_are_limited_when_every_error_message_differs(log_lines: LogLines):
    letters = random.Random(1)

    async def fail_for_an_hour(request: Request) -> Result | None:
        if now() < 3600:
            word = "".join(letters.choices(string.ascii_letters, k=20))
            raise errors.ServerError(500, "InternalError", f"webhook of {word} does not answer")
        return None

    async with Running(Reconciler(fail_for_an_hour)) as running:
        running.add(*(f"{number}" for number in range(100)))
        await asyncio.sleep(3600)
        failures = running.sample(ERRORS)
        assert failures > 1_500
        during = failure_lines(log_lines)
        assert len(running.controller._failing._groups) <= 65
    assert 64 < len(during) < 64 + 60 + 10
    assert sum(line.get("times", 1) for line in during) > failures / 2  # the log counts suppressed lines
    assert any("objects" in line for line in during)


class Reporting(Reconciler):
    """Stub reconciler that records each failure and then calls the test's report function.

    By default its first reconcile fails.
    """

    def __init__(self, report: Any, act: Any = None) -> None:
        super().__init__(act or answering(OSError("no"))._act)
        self.reports: list[tuple[str, str, float]] = []
        self._report = report

    async def failed(self, request: Request, error: BaseException) -> None:
        self.reports.append((request.name, str(error), now()))
        await self._report()


async def test_reconciler_reports_its_failure_before_the_object_is_reconciled_again():
    reconciler = Reporting(lambda: asyncio.sleep(2))
    await ran(reconciler)
    assert reconciler.reports == [("a", "no", 0)]
    assert reconciler.times == [0, 2]


@pytest.mark.parametrize("how", ["ends", "succeeds"])
async def test_failure_report_of_a_timed_out_reconcile_states_the_timeout_in_seconds(how: str):
    reconciler = Reporting(lambda: asyncio.sleep(0), resisting(how))
    await ran(reconciler, seconds=4, reconcile_timeout=2.5)
    assert reconciler.reports == [("a", "it took longer than 2.5 s", 2.5)]


@pytest.mark.parametrize("problem", ["raises", "hangs", "is cancelled from within"])
async def test_failure_report_that_raises_or_hangs_is_logged_once_at_debug_level(
    problem: str, log_lines: LogLines
):
    async def report() -> None:
        if problem == "raises":
            raise errors.ServiceUnavailable(503)
        if problem == "hangs":
            await asyncio.sleep(1000)
        raise asyncio.CancelledError

    reconciler = Reporting(report)
    await ran(reconciler)
    assert len(reconciler.calls) == 2
    assert reconciler.times[1] <= 5.1
    [line] = [each for each in log_lines if each["event"].startswith("cannot report the reconcile's failure")]
    assert line["log_level"] == "debug"


async def test_controller_ends_when_cancelled_during_a_failure_report():
    reconciler = Reporting(lambda: asyncio.sleep(1000))
    async with Running(reconciler) as running:
        running.add("a")
        await asyncio.sleep(1)
    assert running.task.cancelled()
    assert now() < 2
