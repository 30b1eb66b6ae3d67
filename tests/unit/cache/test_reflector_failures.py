"""Failures of a watch: the problems that users see, and the request rate."""

from __future__ import annotations

import asyncio

import pytest

from manager.cache.reflector import (
    HistoryDoubted,
    HistoryRestored,
    NotStreaming,
    Pause,
    State,
    WatchClosed,
    WatchTimedOut,
    rule_for,
)
from manager.kube import errors
from tests.support.scripted_wire import Cut, Delayed, LostBefore, Reply, Stream, Unreached
from tests.unit.cache.conftest import Scene
from tests.unit.cache.objects import encoded, moments, pod
from tests.unit.cache.server import DISCOVERY, Listed, bookmark, page

pytestmark = pytest.mark.virtual_time

FORBIDDEN = Reply.status(403, "Forbidden", 'pods is forbidden: User "x" cannot watch resource "pods"')
NO_STREAMING = Reply.status(422, "Invalid", "sendInitialEvents: Forbidden: forbidden for watch")


class TestReflectorProblem:
    async def test_problem_of_a_missing_permission_ends_when_the_permission_is_granted(self, scene: Scene):
        scene.serve("stream", FORBIDDEN)
        async with scene.running():
            await asyncio.sleep(600)
            assert scene.problem == (
                'pods: forbidden: pods is forbidden: User "x" cannot watch resource "pods"'
            )
            assert not scene.sink.synced.is_set()
            assert 20 < len(scene.sent("stream")) < 50
            scene.serve("stream", Listed(10, ("a", 1)))
            await asyncio.sleep(30)
            assert scene.problem is None
            assert scene.names == ["a"]
        warnings = [line for line in scene.log if line["log_level"] == "warning"]
        assert len(warnings) == 4, "at once, and after one, three and seven minutes"
        assert sum(line["times"] for line in warnings) > 15
        assert [line["event"] for line in scene.log if line["log_level"] == "info"] == ["synced"]

    async def test_problem_keeps_cached_objects_and_its_end_is_logged_when_the_watch_stays_open(
        self, scene: Scene
    ):
        scene.serve("watch", *[FORBIDDEN] * 4, Stream())
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.end()
            await asyncio.sleep(4)
            assert scene.problem is not None
            assert scene.names == ["a"]
            await asyncio.sleep(56)
            assert scene.problem is None
        told = scene.said
        assert told == ["synced", "cannot watch", "watching again"]

    async def test_end_of_a_problem_is_logged_once_when_the_watch_delivers_events(self, scene: Scene):
        stream, good = Listed(10, ("a", 1)), Stream()
        empty = [Stream() for _ in range(40)]
        for each in empty:
            each.end()
        scene.serve("stream", stream)
        scene.serve("watch", *empty, good)
        scene.serve("list", page(10))
        async with scene.running():
            await asyncio.sleep(10)
            stream.end()
            await asyncio.sleep(500)
            told = scene.said
            assert told[0] == "synced"
            assert told[1:] == ["cannot watch"] * (len(told) - 1)
            assert 1 < len(told) < 6
            await asyncio.sleep(1500)
            good.event("BOOKMARK", bookmark(20))
            await moments()
        told = scene.said
        assert told[-1] == "watching again"
        assert told.count("watching again") == 1

    async def test_problem_is_none_when_a_watch_fails_once(self, scene: Scene):
        scene.serve("watch", LostBefore())
        async with scene.following(10) as stream:
            await asyncio.sleep(10)
            stream.cut()
            await moments()
            assert scene.problem is None
            await asyncio.sleep(2)
            assert scene.problem is not None

    async def test_problem_of_a_missing_or_removed_kind_ends_when_the_kind_is_installed(self, scene: Scene):
        stream, not_served = Listed(10, ("a", 1)), "pods: not served (is the CRD installed?)"
        scene.serve("stream", stream, Listed(90, ("b", 80)))
        scene.serve("watch", Reply(404, b"404 page not found"))
        scene.wire.on("GET", "/api/v1", Reply.json({"resources": []}))
        async with scene.running():
            await asyncio.sleep(120)
            assert scene.problem == not_served
            assert len(scene.wire.sent("GET", "/api/v1")) < 20
            scene.wire.on("GET", "/api/v1", DISCOVERY)
            await asyncio.sleep(31)
            assert scene.problem is None
            scene.wire.on("GET", "/api/v1", Reply.json({"resources": []}))
            stream.end()
            await asyncio.sleep(60)
            assert (scene.problem, scene.names) == (not_served, ["a"])
            scene.wire.on("GET", "/api/v1", DISCOVERY)
            await asyncio.sleep(31)
            assert (scene.problem, scene.names) == (None, ["b"])

    @pytest.mark.parametrize(("asked", "seconds"), [("17", 17), ("86400", 30), ("9" * 400, 30)])
    @pytest.mark.parametrize("how", ["a header", "an error event"])
    async def test_reflector_waits_for_retry_after_but_at_most_30_seconds_when_the_server_is_overloaded(
        self, scene: Scene, asked: str, seconds: float, how: str
    ):
        refusal: Stream | Reply
        if how == "a header":
            refusal = Reply(429, b"", {"Retry-After": asked})
        else:
            refusal = Stream()
            status = f'{{"kind":"Status","code":429,"details":{{"retryAfterSeconds":{asked}}}}}'
            refusal.feed(f'{{"type":"ERROR","object":{status}}}\n'.encode())
        scene.serve("stream", refusal, Listed(10))
        await scene.sync()
        assert scene.now == pytest.approx(seconds)

    async def test_long_pause_of_a_watch_is_a_problem_from_its_first_second(self, scene: Scene):
        scene.serve("watch", Stream())
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.event("ERROR", {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 200}})
            await asyncio.sleep(1)
            assert scene.problem is not None
            assert [line["event"] for line in scene.log if line["log_level"] == "warning"] == ["cannot watch"]
            await asyncio.sleep(35)
            assert scene.problem is None


class TestReflectorRequestRate:
    """Request rates under all server failures."""

    async def test_watch_requests_are_limited_to_one_a_second_when_each_watch_ends_after_one_event(
        self, scene: Scene
    ):
        versions = iter(range(11, 10_000))

        def one_event(_: object) -> Reply:
            return Reply(200, b'{"type":"MODIFIED","object":%b}\n' % encoded(pod("a", next(versions))))

        stream = Listed(10)
        stream.end()
        scene.serve("stream", stream)
        scene.serve("watch", one_event)
        async with scene.running():
            await asyncio.sleep(100)
            assert scene.problem is None
        assert 98 <= len(scene.sent("watch")) <= 101

    async def test_request_rate_is_low_when_every_resource_version_has_expired(self, scene: Scene):
        scene.serve("stream", NO_STREAMING)
        scene.serve("list", page(10, ("a", 1)))
        scene.serve("watch", Reply.status(410, "Expired"))
        async with scene.running():
            await asyncio.sleep(3600)
        assert len(scene.sorts()) <= 500

    @pytest.mark.parametrize(
        ("step", "problem"),
        [
            (Unreached(), "pods: cannot connect (scripted)"),
            (LostBefore(), ""),
            (Cut(b'{"type":'), ""),
            (Reply.status(503), ""),
            (Reply(200, b""), "pods: the server closed the watch"),
        ],
    )
    async def test_request_rate_is_low_when_every_watch_fails(self, scene: Scene, step: Reply, problem: str):
        stream = Listed(10)
        stream.end()
        scene.serve("stream", stream)
        scene.serve("watch", step)
        async with scene.running():
            await asyncio.sleep(3600)
            assert scene.problem is not None
            assert problem in scene.problem
        assert 120 <= len(scene.sent("watch")) <= 250

    async def test_request_rate_is_low_when_every_watch_sends_malformed_data(self, scene: Scene):
        streams = [Listed(10) for _ in range(300)]
        for stream in streams:
            stream.feed(b"<html>\n")
        scene.serve("stream", *streams)
        async with scene.running():
            await asyncio.sleep(3600)
        assert 120 <= len(scene.sent("stream")) <= 250

    async def test_watch_backoff_resets_after_a_successful_watch(self, scene: Scene):
        good = Stream()
        stream = Listed(10)
        stream.end()
        scene.serve("stream", stream)
        scene.serve("watch", *[Unreached()] * 8, good, Unreached())
        async with scene.running():
            await good.opened.wait()
            await asyncio.sleep(10)
            good.cut()
            before = len(scene.sent("watch"))
            await asyncio.sleep(6)
            assert len(scene.sent("watch")) >= before + 2


class TestReflectorStop:
    @pytest.mark.parametrize("sort", ["stream", "list", "watch"])
    async def test_reflector_releases_its_connection_when_cancelled_in_any_state(
        self, scene: Scene, sort: str
    ):
        if sort != "stream":
            scene.serve("stream", NO_STREAMING)
        if sort == "watch":
            scene.serve("list", page(10, ("a", 1)))
        scene.serve(sort, Stream())
        async with scene.running():
            await moments()
            assert scene.sorts()[-1] == sort
            assert scene.wire.in_progress == 1
        assert scene.wire.in_progress == 0

    async def test_reflector_ends_its_pause_when_it_is_cancelled(self, scene: Scene):
        scene.wire.on("GET", "/api/v1", Delayed(1, Unreached()))
        async with scene.running():
            await asyncio.sleep(10)


RESOLVE, STREAM, LIST, WATCH, CHECK = State
NO, MAYBE, YES = Pause

AFTER: list[tuple[errors.KubeError, dict[State, State], Pause]] = [
    (errors.NoMatch(), {RESOLVE: RESOLVE}, YES),
    (errors.NotFound(404), {STREAM: RESOLVE}, YES),
    (errors.Unreachable(), {RESOLVE: RESOLVE, LIST: LIST, CHECK: CHECK}, YES),
    (errors.ConnectionLost(), {STREAM: STREAM, WATCH: CHECK}, YES),
    (errors.DeadlineExceeded(), {RESOLVE: RESOLVE, STREAM: LIST, LIST: STREAM}, YES),
    (errors.DeadlineExceeded(), {WATCH: CHECK}, MAYBE),
    (errors.Unauthorized(401), {STREAM: STREAM}, YES),
    (errors.Forbidden(403), {WATCH: WATCH}, YES),
    (errors.TooManyRequests(429), {WATCH: CHECK}, YES),
    (errors.ServiceUnavailable(503), {STREAM: STREAM}, YES),
    (errors.ServerError(500), {RESOLVE: RESOLVE, STREAM: LIST, LIST: STREAM, WATCH: CHECK}, YES),
    (errors.ServerTimeout(504), {CHECK: STREAM}, YES),
    (errors.BadRequest(400), {STREAM: LIST}, NO),
    (errors.BadRequest(400), {LIST: STREAM}, YES),
    (errors.Invalid(422), {STREAM: LIST}, NO),
    (NotStreaming(), {STREAM: LIST}, NO),
    (errors.Gone(410), {STREAM: STREAM, LIST: STREAM, WATCH: STREAM}, MAYBE),
    (HistoryRestored(), {WATCH: STREAM}, YES),
    (HistoryDoubted(), {CHECK: STREAM}, YES),
    (WatchTimedOut(), {STREAM: LIST, WATCH: WATCH}, MAYBE),
    (WatchClosed(), {STREAM: LIST, WATCH: CHECK}, MAYBE),
    (errors.ProtocolError(), {RESOLVE: RESOLVE, STREAM: LIST, LIST: STREAM, WATCH: STREAM}, YES),
    (errors.MethodNotAllowed(405), {WATCH: STREAM}, YES),
    (errors.ApiError(418), {STREAM: LIST}, YES),
    (errors.KubeError(), {RESOLVE: RESOLVE, STREAM: LIST, LIST: STREAM, CHECK: STREAM}, YES),
]


@pytest.mark.parametrize(("failure", "following", "pause"), AFTER)
def test_rule_for_a_failure_gives_next_state_and_pause(
    failure: errors.KubeError, following: dict[State, State], pause: Pause
):
    rules = {state: rule_for(state, failure) for state in following}
    assert {state: rule.next or state for state, rule in rules.items()} == following
    assert {rule.pause for rule in rules.values()} == {pause}
