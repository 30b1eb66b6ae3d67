from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
from contextlib import nullcontext
from typing import Any

import pytest
import structlog

from manager.client.write import APPLY_PATCH
from manager.kube.errors import (
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    NotFound,
    ProtocolError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from manager.kube.transport import Transport, allow_after_stop, require_permit
from manager.kube.wire import WireRequest
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import ReconcileRecord, enter_record, leave_record
from tests.support.scripted_wire import (
    Cut,
    Delayed,
    LostAfter,
    LostBefore,
    Reply,
    ScriptedWire,
    Stall,
    Step,
    Stream,
    Unreached,
)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def wire() -> ScriptedWire:
    return ScriptedWire()


async def test_transport_sends_the_headers_body_and_query_of_a_request_and_returns_the_response(
    transport: Transport, wire: ScriptedWire
):
    wire.on("GET", "/api", Reply(200, b"hello"))
    wire.on("PATCH", "/api", Reply(200, b"{}"))
    assert await transport.request("GET", "/api", query={"labelSelector": "a=b,c"}) == b"hello"
    await transport.request("PATCH", "/api", body=b"{}", content_type="application/merge-patch+json")
    read, patch = wire.requests
    assert read.query == {"labelSelector": "a=b,c"}
    assert read.headers == {"Accept": "application/json", "User-Agent": "test"}
    assert patch.headers == {**read.headers, "Content-Type": "application/merge-patch+json"}
    assert patch.body == b"{}"


async def test_response_beyond_the_size_limit_raises_an_error_without_a_retry(
    transport: Transport, wire: ScriptedWire
):
    wire.on("GET", "/api", Reply(200, bytes(11)))
    with pytest.raises(ProtocolError, match=r"^GET /api: the answer is longer than 10 bytes$"):
        await transport.request("GET", "/api", query={"a": "b"}, longest=10)
    assert len(wire.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("code", [429, 503])
async def test_request_is_repeated_after_the_retry_after_time_for_every_method(
    transport: Transport, wire: ScriptedWire, method: str, code: int
):
    wire.on(method, "/api", Reply.status(code, retry_after=3), Reply(200, b"ok"))
    assert await transport.request(method, "/api") == b"ok"
    first, second = wire.requests
    assert 3 < second.at - first.at < 4


@pytest.mark.parametrize(("retry_after", "attempts"), [(7, {4, 5}), (0, {10})])
async def test_transport_gives_up_within_the_deadline_when_the_server_always_refuses(
    transport: Transport, wire: ScriptedWire, retry_after: int, attempts: set[int]
):
    wire.on("POST", "/api", Reply.status(429, "TooManyRequests", retry_after=retry_after))
    with pytest.raises(TooManyRequests) as caught:
        await transport.request("POST", "/api")
    assert caught.value.retry_after == retry_after
    assert asyncio.get_running_loop().time() < 30
    assert len(wire.requests) in attempts
    assert all(later.at - earlier.at >= 0.05 for earlier, later in itertools.pairwise(wire.requests))


@pytest.mark.parametrize(
    "fault",
    [Reply.status(500, "InternalError"), Reply.status(504, "Timeout"), LostBefore(), Unreached(), Cut(b"x")],
)
async def test_transport_repeats_a_read_after_transient_faults(
    transport: Transport, wire: ScriptedWire, fault: Step
):
    wire.on("GET", "/api", fault, fault, Reply(200, b"ok"))
    assert await transport.request("GET", "/api") == b"ok"
    assert len(wire.requests) == 3


@pytest.mark.parametrize(
    ("method", "answer", "error", "attempts"),
    [
        ("GET", Reply.status(404, "NotFound", "said so"), NotFound, 1),
        ("GET", Reply.status(500, "InternalError", "said so"), ServerError, 4),
        ("POST", Reply.status(429, "TooManyRequests", "said so"), TooManyRequests, 1),
    ],
)
async def test_transport_raises_the_error_of_the_server_after_at_most_four_attempts(
    transport: Transport, wire: ScriptedWire, method: str, answer: Step, error: type[Exception], attempts: int
):
    wire.on(method, "/api", answer)
    with pytest.raises(error, match="said so"):
        await transport.request(method, "/api")
    assert len(wire.requests) == attempts


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (LostAfter(Reply.json({})), ConnectionLost),
        (LostBefore(), ConnectionLost),
        (Unreached(), Unreachable),
        (Cut(b"{"), ConnectionLost),
        (Reply.status(500, "InternalError"), ServerError),
    ],
)
async def test_transport_does_not_repeat_a_write_after_a_connection_error_or_a_500_response(
    transport: Transport, wire: ScriptedWire, fault: Step, error: type[Exception]
):
    wire.on("PUT", "/api", fault, Reply(200, b"ok"))
    with pytest.raises(error):
        await transport.request("PUT", "/api")
    assert len(wire.requests) == 1


async def test_request_releases_its_connection_when_it_times_out_or_is_cancelled(
    transport: Transport, wire: ScriptedWire
):
    wire.on("PUT", "/api", Stall())
    with pytest.raises(DeadlineExceeded, match=r"PUT /api: no answer within 5 s"):
        await transport.request("PUT", "/api", deadline=5)
    assert asyncio.get_running_loop().time() == 5
    assert wire.in_progress == 0
    task = asyncio.create_task(transport.request("PUT", "/api"))
    await asyncio.sleep(1)
    assert wire.in_progress == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert wire.in_progress == 0


async def test_stream_yields_all_pieces_and_raises_when_the_stream_breaks(
    transport: Transport, wire: ScriptedWire
):
    stream = Stream()
    wire.on("GET", "/watch", stream)
    stream.feed(b"a")
    stream.feed(b"b")
    stream.end()
    async with transport.stream("/watch", query={"watch": "1"}, idle_timeout=60) as chunks:
        assert [chunk async for chunk in chunks] == [b"a", b"b"]
    assert stream.closed
    assert wire.in_progress == 0
    broken = Stream()
    wire.on("GET", "/watch", broken)
    broken.cut()
    with pytest.raises(ConnectionLost):
        async with transport.stream("/watch", idle_timeout=60) as chunks:
            assert [chunk async for chunk in chunks]


async def test_stream_raises_an_error_when_no_data_arrives_within_the_idle_timeout(
    transport: Transport, wire: ScriptedWire
):
    stream = Stream()
    wire.on("GET", "/watch", stream)
    asyncio.get_running_loop().call_later(50, stream.feed, b"bookmark")
    async with transport.stream("/watch", idle_timeout=60) as chunks:
        assert await anext(chunks) == b"bookmark"
        with pytest.raises(DeadlineExceeded, match="nothing came for 60 s"):
            await anext(chunks)
    assert asyncio.get_running_loop().time() == 110
    assert stream.closed


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Stall(), DeadlineExceeded, "no answer within 30 s"),
        (Reply.status(429, "TooManyRequests", "said so", retry_after=3), TooManyRequests, "said so"),
    ],
)
async def test_stream_is_not_retried_when_the_server_refuses_or_does_not_answer(
    transport: Transport, wire: ScriptedWire, answer: Step, error: type[Exception], message: str
):
    wire.on("GET", "/watch", answer)
    with pytest.raises(error, match=message):
        async with transport.stream("/watch", idle_timeout=60):
            raise AssertionError("entered")
    assert len(wire.requests) == 1


async def test_stream_propagates_a_timeout_error_raised_in_its_async_with_block(
    transport: Transport, wire: ScriptedWire
):
    wire.on("GET", "/watch", Stream())
    with pytest.raises(TimeoutError):
        async with transport.stream("/watch", idle_timeout=60), asyncio.timeout(1):
            await asyncio.sleep(2)


async def test_transport_metrics_count_requests_by_method_and_outcome(
    transport: Transport, wire: ScriptedWire, metrics: Metrics
):
    wire.on("GET", "/api", Reply(200), Reply.status(404))
    wire.on("PUT", "/api", LostBefore())
    await transport.request("GET", "/api")
    with pytest.raises(NotFound):
        await transport.request("GET", "/api")
    with pytest.raises(ConnectionLost):
        await transport.request("PUT", "/api")

    def count(code: str, method: str) -> float | None:
        labels = {"code": code, "method": method, "host": wire.host}
        return metrics.registry.get_sample_value("rest_client_requests_total", labels)

    assert [count("200", "GET"), count("404", "GET"), count("<error>", "PUT")] == [1, 1, 1]
    labels = {"verb": "GET", "host": wire.host}
    assert metrics.registry.get_sample_value("rest_client_request_duration_seconds_count", labels) == 2


@pytest.mark.parametrize(
    ("method", "options", "verb"),
    [
        ("GET", {}, "get"),
        ("PATCH", {"content_type": APPLY_PATCH, "query": {"dryRun": "All"}, "body": b"{}"}, "apply, dry run"),
        ("DELETE", {"body": b'{"dryRun":["All"]}'}, "delete, dry run"),
        ("DELETE", {}, "delete"),
    ],
)
async def test_reconcile_record_contains_the_verb_of_each_request(
    transport: Transport, wire: ScriptedWire, method: str, options: dict[str, Any], verb: str
):
    wire.on(method, "/api", Reply())
    run = ReconcileRecord("foo", "ns", "foo", "1", 0.0, 0.0, 0, 0, (), 0)
    token = enter_record(run)
    await transport.request(method, "/api", **options)
    leave_record(token)
    [sent] = run.requests
    assert (sent.verb, sent.path, sent.code, sent.attempts) == (verb, "/api", 200, 1)


async def test_transport_logs_each_server_warning_once(transport: Transport, wire: ScriptedWire):
    header = r'299 - "unknown field \"spec.x\", really", 299 - "second"'
    wire.on("GET", "/api", Reply(200, b"", {"Warning": header}))
    wire.on("GET", "/other", Reply(200, b"", {"Warning": "of another form"}))
    with structlog.testing.capture_logs() as logged:
        for path in ("/api", "/api", "/other"):
            await transport.request("GET", path)
    assert [entry["warning"] for entry in logged] == ['unknown field "spec.x", really', "second"]


async def test_transport_checks_the_permit_of_a_write_when_the_connection_is_ready(
    transport: Transport, wire: ScriptedWire, monkeypatch: pytest.MonkeyPatch
):
    exchange = wire.exchange

    def fenced_while_connecting(request: WireRequest) -> object:
        if request.permit is not None:
            transport.fence("lost the lease while the connection was made")
        return exchange(request)

    monkeypatch.setattr(wire, "exchange", fenced_while_connecting)
    wire.on("GET", "/api", Reply())
    await transport.request("GET", "/api")
    with pytest.raises(Fenced, match="while the connection was made"):
        await transport.request("PUT", "/api")
    assert [sent.method for sent in wire.requests] == ["GET"]


PATH = "/api/v1/namespaces/default/configmaps/x"


class Term:
    """Write permit that ends when a test sets `over`."""

    def __init__(self) -> None:
        self.over = False

    def permit(self) -> None:
        if self.over:
            raise Fenced("another replica has the shard")


class TestTransportWrites:
    @pytest.fixture
    async def wire(self) -> ScriptedWire:
        wire = ScriptedWire()
        for method in ("GET", "PUT"):
            wire.on(method, PATH, Reply())
        return wire

    async def test_fence_at_refuses_writes_after_its_deadline_and_a_second_call_replaces_the_deadline(
        self, transport: Transport, wire: ScriptedWire
    ):
        for at in (10.0, 20.0):
            transport.fence_at(at)
        await asyncio.sleep(19.9)
        await transport.request("PUT", PATH)
        await asyncio.sleep(0.1)
        with pytest.raises(Fenced, match="not renewed in time"):
            await transport.request("PUT", PATH)
        assert await transport.request("GET", PATH) == b""
        transport.fence_at(None)
        await asyncio.sleep(100)
        await transport.request("PUT", PATH)
        assert len(wire.sent("PUT")) == 2

    async def test_transport_fence_refuses_even_permitted_writes_and_lets_reads_pass(
        self, transport: Transport, wire: ScriptedWire
    ):
        transport.fence("another one leads")
        transport.fence_at(None)
        with require_permit(Term().permit), pytest.raises(Fenced, match="another one leads"):
            await transport.request("PUT", PATH)
        assert await transport.request("GET", PATH) == b""
        assert wire.sent("PUT") == []

    async def test_fence_also_refuses_writes_of_other_transports_that_share_it(
        self, transport: Transport, wire: ScriptedWire
    ):
        other = ScriptedWire()
        other.on("PUT", PATH, Reply())
        lane = Transport(other, metrics=Metrics(), rng=random.Random(1), user_agent="test", beside=transport)
        await lane.request("PUT", PATH)
        lane.fence_at(0.0)
        with pytest.raises(Fenced, match="not renewed in time"):
            await transport.request("PUT", PATH)
        lane.fence_at(None)
        lane.fence("another one leads")
        for each in (transport, lane):
            with pytest.raises(Fenced, match="another one leads"):
                await each.request("PUT", PATH)
        assert (wire.aborts, other.aborts) == (1, 1)
        assert (len(wire.sent("PUT")), len(other.sent("PUT"))) == (0, 1)

    async def test_transport_refuses_writes_after_fence_work_unless_allow_after_stop_was_called(
        self, transport: Transport, wire: ScriptedWire
    ):
        beside = contextvars.copy_context()
        beside.run(allow_after_stop)
        transport.fence_work("the lease is given back")
        with pytest.raises(Fenced, match="the lease is given back"):
            await transport.request("PUT", PATH)
        assert await transport.request("GET", PATH) == b""
        await asyncio.create_task(transport.request("PUT", PATH), context=beside)
        assert (len(wire.sent("PUT")), wire.aborts) == (1, 0)

    @pytest.mark.parametrize(
        "step", [Stall(), Reply.status(429, retry_after=5)], ids=["in flight", "waiting"]
    )
    async def test_transport_fence_ends_a_write_in_progress(
        self, transport: Transport, wire: ScriptedWire, step: Step
    ):
        wire.on("PUT", PATH, step, Reply())
        writing = asyncio.create_task(transport.request("PUT", PATH))
        await asyncio.sleep(1)
        transport.fence("lost the lease")
        with pytest.raises(Fenced, match="lost the lease"):
            await writing
        assert (len(wire.requests), wire.aborts) == (1, 1)

    @pytest.mark.parametrize("is_beside", [False, True])
    async def test_fence_work_aborts_a_write_in_flight_unless_allow_after_stop_was_called(
        self, transport: Transport, wire: ScriptedWire, is_beside: bool
    ):
        wire.on("PUT", PATH, Delayed(1.0, Reply()))
        context = contextvars.copy_context()
        context.run(allow_after_stop, is_beside)
        writing = asyncio.create_task(transport.request("PUT", PATH), context=context)
        await asyncio.sleep(0.5)
        transport.fence_work("the lease is given back")
        with nullcontext() if is_beside else pytest.raises(Fenced, match="the lease is given back"):
            await writing
        assert wire.aborts == (0 if is_beside else 1)

    async def test_transport_counts_writes_in_flight_but_no_reads(
        self, transport: Transport, wire: ScriptedWire
    ):
        wire.on("PUT", PATH, Delayed(1.0, Reply()), Delayed(2.0, LostBefore()))
        wire.on("GET", PATH, Delayed(5.0, Reply()))
        assert transport.writes_in_flight == 0
        async with asyncio.TaskGroup() as group:
            group.create_task(transport.request("PUT", PATH))
            failing = asyncio.gather(transport.request("PUT", PATH), return_exceptions=True)
            group.create_task(transport.request("GET", PATH))
            await asyncio.sleep(0.5)
            assert transport.writes_in_flight == 2
            await asyncio.sleep(1.0)
            assert transport.writes_in_flight == 1
            assert isinstance((await failing)[0], ConnectionLost)
            assert transport.writes_in_flight == 0

    async def test_write_requires_the_permit_of_the_innermost_require_permit_block_of_its_task(
        self, transport: Transport, wire: ScriptedWire
    ):
        ours, others = Term(), Term()
        others.over = True

        async def write_later() -> None:
            await asyncio.sleep(10)
            await transport.request("PUT", PATH)

        with require_permit(others.permit):
            with pytest.raises(Fenced, match="another replica has the shard"):
                await transport.request("PUT", PATH)
            assert await transport.request("GET", PATH) == b""
            with require_permit(ours.permit):
                await transport.request("PUT", PATH)
                later = asyncio.create_task(write_later())
        await transport.request("PUT", PATH)
        assert len(wire.sent("PUT")) == 2
        ours.over = True
        with pytest.raises(Fenced, match="another replica has the shard"):
            await later

    async def test_transport_checks_the_write_permit_before_each_attempt(
        self, transport: Transport, wire: ScriptedWire
    ):
        term = Term()
        wire.on("PUT", PATH, Reply.status(429, "TooManyRequests", retry_after=5), Reply())
        with require_permit(term.permit):
            writing = asyncio.create_task(transport.request("PUT", PATH))
        await asyncio.sleep(1)
        term.over = True
        with pytest.raises(Fenced, match="another replica has the shard"):
            await writing
        assert len(wire.sent("PUT")) == 1
