from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from manager.api import ObjectKey
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
from manager.kube.errors import Forbidden
from tests.support.effort import turns_of_others
from tests.support.scripted_wire import (
    Cut,
    LostBefore,
    Reply,
    ScriptedWire,
    Sent,
    Stall,
    Step,
    Stream,
    Unreached,
)
from tests.unit.cache.conftest import Make, Scene
from tests.unit.cache.objects import Pod, encoded, moments, pod
from tests.unit.cache.server import DISCOVERY, Listed, PodServer, bookmark, expired, page

pytestmark = pytest.mark.virtual_time

CANNOT_WATCH = 'pods is forbidden: User "x" cannot watch resource "pods"'
FORBIDDEN = Reply.status(403, "Forbidden", CANNOT_WATCH)
NO_STREAMING = Reply.status(422, "Invalid", "sendInitialEvents: Forbidden: forbidden for watch")
TOO_LARGE = Reply.status(504, "Timeout", "Too large resource version: 50, current: 41")


class TestReflectorStreamingList:
    async def test_streaming_list_delivers_concurrent_changes_and_continues_as_a_watch(self, scene: Scene):
        stream = Stream()
        for name, version in (("a", 1), ("b", 7), ("gone", 2)):
            stream.event("ADDED", pod(name, version))
        scene.serve("stream", stream)
        assert scene.sink.seen == 0
        async with scene.running():
            await moments()
            assert not scene.sink.synced.is_set()
            assert [event.initial for event in scene.told.events] == [True] * 3
            assert scene.told.take() == ["ADDED ns/a@1", "ADDED ns/b@7", "ADDED ns/gone@2"]
            stream.event("MODIFIED", pod("a", 8))
            stream.event("DELETED", pod("gone", 9))
            stream.event("BOOKMARK", bookmark(10, ends_list=True))
            await moments()
            assert scene.sink.synced.is_set()
            assert scene.names == ["a", "b"]
            scene.told.take()
            stream.event("MODIFIED", pod("a", 11))
            stream.event("ADDED", pod("c", 11))
            stream.event("DELETED", pod("b", 12))
            await moments()
            assert not any(event.initial for event in scene.told.events)
            assert scene.told.take() == ["MODIFIED ns/a@11", "ADDED ns/c@11", "DELETED ns/b@7"]
            assert scene.reflector.state is State.WATCH
            assert scene.problem is None
        assert scene.sorts() == ["stream"]
        (sent,) = scene.sent("stream")
        assert 300 <= int(sent.query["timeoutSeconds"]) <= 600
        assert {name: value for name, value in sent.query.items() if name != "timeoutSeconds"} == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        assert sent.headers["Accept"] == "application/json"

    async def test_streaming_list_starts_again_when_the_stream_breaks(self, scene: Scene):
        broken = Stream()
        broken.event("ADDED", pod("a", 3))
        broken.event("ADDED", pod("b", 4))
        broken.cut()
        scene.serve("stream", broken, Listed(10, ("b", 9)))
        await scene.sync()
        assert scene.names == ["b"]
        assert scene.told.take() == ["ADDED ns/a@3", "ADDED ns/b@4", "MODIFIED ns/b@9", "DELETED ns/a@3"]

    async def test_metadata_only_reflector_sends_its_namespace_and_selectors_in_every_request(
        self, make: Make, wire: ScriptedWire
    ):
        server = PodServer(wire, "/api/v1/namespaces/one/pods")
        server.on("stream", NO_STREAMING)
        server.on("list", page(5, ("a", 1), resume="more"), page(5, ("b", 2)))
        following = make(
            namespace="one", metadata_only=True, label_selector="app=web", field_selector="spec.nodeName=n1"
        )
        async with following.running():
            await moments()
        assert server.sorts() == ["stream", "list", "list", "watch"]
        for sent in wire.sent("GET", "/api/v1/namespaces/one/pods"):
            assert sent.query["labelSelector"] == "app=web"
            assert sent.query["fieldSelector"] == "spec.nodeName=n1"
            form = "PartialObjectMetadata" if "watch" in sent.query else "PartialObjectMetadataList"
            assert sent.headers["Accept"] == f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"


class TestReflectorPagedList:
    async def test_reflector_requests_pages_when_the_server_refuses_a_streaming_list(self, scene: Scene):
        scene.serve("stream", NO_STREAMING)
        scene.serve(
            "list", page(10, ("a", 1), resume="p2"), page(10, ("b", 2), resume="p3"), page(10), page(20)
        )
        scene.serve("watch", Reply.status(410, "Expired"), Stall())
        async with scene.running():
            await scene.synced()
            assert scene.now == 0
            assert scene.names == ["a", "b"]
            await asyncio.sleep(20)
            assert scene.names == []
        assert scene.sorts() == ["stream", "list", "list", "list", "watch", "list", "watch"]
        first, second, third, *_ = scene.sent("list")
        assert (first.query["limit"], first.query.get("continue")) == ("500", None)
        assert (second.query["limit"], second.query["continue"]) == ("500", "p2")
        assert third.query["continue"] == "p3"
        assert scene.sent("watch")[0].query["resourceVersion"] == "10"

    async def test_reflector_yields_to_the_loop_between_large_objects_of_a_page(
        self, make: Make, server: PodServer
    ):
        async def turns(size: int) -> int:
            items = [pod(f"p{number}", number, spec={"filler": "x" * size}) for number in range(1, 21)]
            server.on("stream", NO_STREAMING)
            server.on("list", Reply.json({"metadata": {"resourceVersion": "30"}, "items": items}))
            return await turns_of_others(make().sync())

        assert await turns(70_000) >= await turns(7) + 20

    @pytest.mark.parametrize(
        ("answer", "seconds"), [("a bookmark that does not end the list", 0), ("a list", 0), ("none", 90)]
    )
    async def test_reflector_requests_a_paged_list_when_the_server_streams_no_complete_list(
        self, scene: Scene, answer: str, seconds: float
    ):
        stream = Stream()
        if answer.startswith("a bookmark"):
            stream.event("ADDED", pod("a", 3))
            stream.event("BOOKMARK", bookmark(5))
        scene.serve("stream", page(10, ("a", 3)) if answer == "a list" else stream)
        scene.serve("list", page(10, ("a", 3)))
        await scene.sync()
        assert scene.sorts()[:2] == ["stream", "list"]
        assert seconds <= scene.now <= seconds + 2


class TestReflectorPages:
    @pytest.fixture(autouse=True)
    def without_streaming(self, server: PodServer):
        server.on("stream", NO_STREAMING)

    async def test_paged_list_restarts_without_a_limit_when_its_continue_token_expires(self, scene: Scene):
        scene.serve("list", page(10, ("a", 1), resume="p2"), Reply.status(410, "Expired"), page(20, ("b", 2)))
        await scene.sync()
        whole = scene.sent("list")[2]
        assert "limit" not in whole.query
        assert "continue" not in whole.query
        assert scene.names == ["b"]

    async def test_paged_list_delivers_every_object_when_one_object_is_deeply_nested(self, scene: Scene):
        answer = page(10, ("a", 1), ("deep", 2), ("b", 3))
        nested = b"[" * 5_000 + b"]" * 5_000
        body = answer.body.replace(b'"name":"deep"', b'"managedFields":%b,"name":"deep"' % nested)
        scene.serve("list", replace(answer, body=body))
        await scene.sync()
        assert scene.names == ["a", "b", "deep"]

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize(
        ("pages", "why", "most"),
        [
            ([Reply(200, b"<html>login</html>")], "", 20),
            ([page(10, resume="a")], "a page of it links to itself", 20),
            ([page(10, ("a", 1), resume="a")], "a page of it links to itself", 20),
            (
                [page(10, resume=str(number)) for number in range(1, 10_000)],
                "1001 consecutive pages are empty",
                20_000,
            ),
        ],
        ids=["garbage", "an endless empty page", "an endless page", "endless empty pages"],
    )
    async def test_invalid_or_endless_paged_list_is_reported_as_a_problem_and_retried_later(
        self, scene: Scene, pages: list[Reply], why: str, most: int
    ):
        scene.serve("list", *pages)
        async with scene.running():
            await asyncio.sleep(0.1)
            first = len(scene.sent("list"))
            assert first <= 1001
            await asyncio.sleep(5)
            assert scene.problem.startswith(f"pods: GET /api/v1/pods: not a list: {why}")
        assert first < len(scene.sent("list")) < most

    async def test_paged_list_accepts_empty_pages_and_adds_the_kind_to_its_items(self, scene: Scene):
        empty = [page(10, resume=str(number)) for number in range(1, 500)]
        scene.serve("list", *empty, page(10, ("a", 1), resume="x"), *empty, page(10, ("b", 2)))
        await scene.sync()
        assert scene.names == ["a", "b"]
        assert {record.decode(Pod).kind for record in scene.store} == {"Pod"}


class TestReflectorWatch:
    @pytest.mark.parametrize("last", [("ADDED", pod("a", 15)), ("BOOKMARK", bookmark(15))])
    async def test_closed_watch_resumes_immediately_from_the_version_of_the_last_event(
        self, scene: Scene, last: tuple[str, dict[str, Any]]
    ):
        async with scene.following(10) as stream:
            await asyncio.sleep(30)
            stream.event(*last)
            stream.end()
            await moments()
            assert [sent.query["resourceVersion"] for sent in scene.sent("watch")] == ["15"]
            assert scene.problem is None
        assert scene.restarts == {"closed": 1}

    async def test_watch_is_replaced_after_90_seconds_without_events_or_bookmarks(self, scene: Scene):
        scene.serve("list", page(10))
        async with scene.following(10) as stream:
            await asyncio.sleep(89)
            assert scene.sent("watch") == []
            await asyncio.sleep(2)
            assert len(scene.sent("watch")) == 1
            assert stream.closed
            assert scene.problem is None
        assert scene.restarts == {"silent": 1}

    @pytest.mark.parametrize("lost", [False, True])
    async def test_watch_that_ends_within_an_event_resumes_before_that_event(self, scene: Scene, lost: bool):
        after = Stream()
        scene.serve("watch", after)
        line = b'{"type":"ADDED","object":%b}' % encoded(pod("a", 11))
        async with scene.following(10) as stream:
            await asyncio.sleep(20)
            stream.feed(line[:70])
            stream.cut() if lost else stream.end()
            await after.opened.wait()
            await moments()
            assert 20.8 * lost <= scene.now <= 21.7
            assert scene.problem is None
            assert scene.sent("watch")[0].query["resourceVersion"] == "10"
            after.feed(line + b"\n")
            await moments()
            assert scene.told.take() == ["ADDED ns/a@11"]

    @pytest.mark.parametrize(
        "line",
        [
            b"<html><body>502 Bad Gateway</body></html>\n",
            b'{"type":"ADDED"}\n',
            b'{"type":"SURPRISE","object":%b}\n' % encoded(pod("a", 11)),
            b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"a","uid":"u","resourceVersion":"11"}}}\n',
            b'{"type":"ADDED","object":{"kind":"Pod","metadata":{}}}\n',
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"soon"}}}\n',
        ],
    )
    async def test_reflector_lists_again_later_when_watch_data_is_malformed(self, scene: Scene, line: bytes):
        after = Listed(20, ("b", 20))
        async with scene.following(10, then=[after]) as stream:
            stream.feed(line)
            await after.opened.wait()
            assert scene.now >= 0.8
            await moments()
            assert scene.told.take() == ["ADDED ns/b@20"]
        assert scene.sorts() == ["stream", "stream"]
        assert scene.restarts == {"garbage": 1}

    @pytest.mark.parametrize("depth", [400, 2_000, 100_000])
    async def test_watch_delivers_a_deeply_nested_object_and_continues(self, scene: Scene, depth: int):
        async with scene.following(10, ("a", 1)) as stream:
            deep = pod("deep", 11) | {"spec": "HERE"}
            deep["metadata"]["managedFields"] = [{"manager": "somebody", "fieldsV1": "HERE"}]
            nested = b'{"f:a\\"}[{":' * depth + b"1" + b"}" * depth
            event = b'{"type":"ADDED","object":%b}\n' % encoded(deep).replace(b'"HERE"', nested)
            stream.feed(event)
            stream.event("ADDED", pod("after", 12))
            await asyncio.sleep(1)
            assert scene.told.take() == ["ADDED ns/a@1", "ADDED ns/deep@11", "ADDED ns/after@12"]
            assert scene.problem is None

    async def test_reflector_lists_again_when_its_resource_version_has_expired(self, scene: Scene):
        again = Stream()
        scene.serve("watch", Reply.status(410, "Expired", "too old resource version"))
        async with scene.following(10, ("a", 1), ("b", 2), ("c", 3), then=[again]) as stream:
            await asyncio.sleep(10)
            scene.told.take()
            stream.end()
            for name, version in (("b", 2), ("c", 25), ("d", 26)):
                again.event("ADDED", pod(name, version))
            await asyncio.sleep(5)
            assert scene.names == ["a", "b", "c"], "the new list is not complete"
            again.event("BOOKMARK", bookmark(30, ends_list=True))
            await moments()
            assert scene.told.take() == ["DELETED ns/a@1", "MODIFIED ns/c@25", "ADDED ns/d@26"]
        assert scene.sorts() == ["stream", "check", "watch", "stream"]
        assert scene.restarts == {"closed": 1, "expired": 1}

    async def test_reflector_lists_soon_after_an_outage_in_which_its_version_expired(self, scene: Scene):
        again = Listed(30)
        scene.serve("watch", *[Unreached()] * 8, Reply.status(410, "Expired", "too old resource version"))
        async with scene.following(10, ("a", 1), then=[again]) as stream:
            await asyncio.sleep(10)
            stream.cut()
            await again.opened.wait()
            refused, listed = scene.sent("watch")[-1], scene.sent("stream")[-1]
            assert listed.at - refused.at <= 2
            assert scene.problem is not None
            await moments()
            assert scene.problem is None
        warned = {line["reason"] for line in scene.warnings}
        assert warned == {"lost"}, "only the next list shows whether a problem remains"

    async def test_watch_backoff_after_an_outage_ends_when_the_server_answers_an_unrelated_request(
        self, scene: Scene
    ):
        again = Stream()
        scene.serve("watch", Unreached())
        scene.wire.on("GET", "/api/v1/nodes/n", Reply.status(403))
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.cut()
            await asyncio.sleep(100)
            scene.serve("watch", again)
            answered = scene.now
            with pytest.raises(Forbidden):
                await scene.transport.request("GET", "/api/v1/nodes/n")
            await again.opened.wait()
            assert scene.now - answered <= 1

    @pytest.mark.parametrize("refused", [None, 1])
    async def test_watch_is_retried_soon_when_the_recovered_server_refuses_the_first_watch(
        self, scene: Scene, refused: int | None
    ):
        # An API server answers this while it initialises the storage of a kind.
        refusal = Reply.status(429, "TooManyRequests", "storage is (re)initializing", retry_after=refused)
        again = Stream()
        scene.serve("watch", *[Unreached()] * 8, refusal, refusal, again)
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.cut()
            await again.opened.wait()
        first, second, good = (request.at for request in scene.sent("watch")[-3:])
        assert second - first <= 2
        assert good - second <= (1.01 if refused else 4)

    async def test_watch_reopens_without_a_pause_after_a_short_watch_without_events(self, scene: Scene):
        scene.serve("stream", Listed(10, ends=True))
        quiet = [Stream() for _ in range(50)]
        scene.serve("watch", *quiet)
        async with scene.running():
            for watch in quiet[:40]:
                await watch.opened.wait()
                await asyncio.sleep(2)
                watch.end()
            assert scene.problem is None
            assert scene.now < 83

    async def test_reflector_accepts_the_older_list_of_a_restored_server_after_retries(self, scene: Scene):
        older = [Listed(41, ("a", 30)) for _ in range(20)]
        async with scene.following(50, ("a", 45), then=older) as stream:
            await asyncio.sleep(10)
            stream.event("BOOKMARK", bookmark(40))
            await asyncio.sleep(20)
            assert scene.told.take() == ["ADDED ns/a@45"]
            assert scene.problem == "pods: the server lists version 41, after 50"
            await asyncio.sleep(60)
            assert scene.told.take() == ["MODIFIED ns/a@30"]
            assert scene.problem is None
        first, second, *others, last = scene.sent("stream")
        assert "resourceVersion" not in first.query.keys() | second.query.keys() | last.query.keys()
        for sent in others:
            assert sent.query["resourceVersion"] == "50"
            assert sent.query["resourceVersionMatch"] == "NotOlderThan"
        assert 3 < scene.restarts["stale"] < 10

    @pytest.mark.parametrize(
        ("now", "events"),
        [
            # Other clients have written since the restore, so the version is as high as before.
            pytest.param([("a", 30), ("b", 20)], ["MODIFIED ns/b@20"], id="newest is older"),
            pytest.param([("a", 30), ("b", 48)], ["MODIFIED ns/b@48"], id="newest changed before"),
            pytest.param([("a", 30)], ["DELETED ns/b@45"], id="newest was deleted"),
            pytest.param([("a", 30), ("c", 40)], ["DELETED ns/b@45", "ADDED ns/c@40"], id="equal number"),
            pytest.param([("a", 30), ("b", 45), ("c", 40)], ["ADDED ns/c@40"], id="deleted is recreated"),
            pytest.param(
                [("a", 25), ("b", 75)], ["MODIFIED ns/a@25", "MODIFIED ns/b@75"], id="second is older"
            ),
            pytest.param([("a", 70), ("b", 75)], ["MODIFIED ns/a@70", "MODIFIED ns/b@75"], id="all changed"),
            pytest.param([("a", 30), ("b", 45)], None, id="nothing happened"),
            pytest.param([("a", 30), ("b", 75)], None, id="newest changed since"),
        ],
    )
    @pytest.mark.parametrize("end", ["closed", "lost"])
    async def test_reflector_resumes_a_watch_if_a_check_rules_out_a_server_restore_and_lists_again_otherwise(
        self, scene: Scene, now: list[tuple[str, int]], events: list[str] | None, end: str
    ):
        def check(sent: Sent) -> Step:
            field = sent.query.get("fieldSelector", "")
            return page(80, *(each for each in now if field in {"", f"metadata.name={each[0]}"}))

        scene.serve("check", check)
        scene.serve("watch", Stream())
        async with scene.following(50, ("a", 30), ("b", 45), then=[Listed(81, *now)]) as stream:
            await asyncio.sleep(10)
            scene.told.take()
            stream.end() if end == "closed" else stream.cut()
            await asyncio.sleep(4)
            assert sorted(scene.told.take()) == sorted(events or [])
            assert scene.problem is None
        assert len(scene.sent("watch")) == (events is None)

    async def test_reflector_replaces_an_object_when_a_restored_server_reuses_its_version(self, scene: Scene):
        again = Stream()
        again.event("ADDED", pod("a", 30, labels={"restored": "yes"}))
        again.event("ADDED", pod("b", 20))
        again.event("BOOKMARK", bookmark(81, ends_list=True))
        scene.serve("check", page(80, ("b", 20), resume="more"))
        async with scene.following(50, ("a", 30), ("b", 45), then=[again]) as stream:
            await asyncio.sleep(10)
            scene.told.take()
            stream.cut()
            await asyncio.sleep(4)
            assert sorted(scene.told.take()) == ["MODIFIED ns/a@30", "MODIFIED ns/b@20"]

    async def test_watch_resumes_after_its_timeout_without_a_check_for_a_restored_server(self, scene: Scene):
        scene.serve("watch", Stream())
        async with scene.following(10, ("a", 1)) as stream:
            await moments()
            seconds = int(scene.sent("stream")[0].query["timeoutSeconds"])
            for version in range(20, 20 + seconds // 60):
                await asyncio.sleep(60)
                stream.event("BOOKMARK", bookmark(version))
            await asyncio.sleep(seconds % 60)
            stream.end()
            await asyncio.sleep(2)
        assert scene.sorts() == ["stream", "watch"]

    @pytest.mark.parametrize("cause", ["expired", "silent"])
    async def test_reflector_accepts_an_older_list_when_the_server_reports_a_too_large_resource_version(
        self, scene: Scene, cause: str
    ):
        """Restore the server from a backup; a watch at a version that the server has lost sends no events."""

        def answer(sent: Sent) -> Step:
            return TOO_LARGE if "resourceVersion" in sent.query else Listed(41, ("a", 30))

        scene.serve("list", TOO_LARGE)
        scene.serve("check", page(41, ("a", 30)))
        async with scene.following(50, ("a", 45), then=[answer]) as stream:
            if cause == "expired":
                stream.event("ERROR", expired())
            await asyncio.sleep(20)
            assert scene.told.take() == ["ADDED ns/a@45"]
            await asyncio.sleep(90 if cause == "expired" else 170)
            assert scene.told.take() == ["MODIFIED ns/a@30"]
            assert scene.problem is None
        if cause == "expired":
            assert scene.sent("stream")[1].at == pytest.approx(1), "a complete list resets the back-off"
        else:
            assert "resourceVersion" not in scene.sent("check")[0].query
            assert scene.restarts["silent"] == 1


DELETED = ObjectKey("ns", "a")
DELETED_PATH = "/api/v1/namespaces/ns/pods/a"


class TestReflectorDeletedObject:
    @pytest.mark.parametrize(
        ("answers", "told"),
        [
            ([Reply.json(pod("a", 1))], ["ADDED ns/a@1"]),
            ([Reply.json(pod("a", 30, uid="another"))], ["ADDED ns/a@30"]),
            ([Reply.status(404, "NotFound", 'pods "a" not found')], []),
            ([FORBIDDEN, Reply.json(pod("a", 1))], ["ADDED ns/a@1"]),
        ],
        ids=["restored", "recreated", "deleted", "first read fails"],
    )
    async def test_reflector_sends_a_get_when_no_watch_event_confirms_a_deletion_by_this_client(
        self, scene: Scene, answers: list[Reply], told: list[str]
    ):
        """Deliver a list that still has the deleted object: an old list, or a list of a restored server."""
        scene.store.observe_deletion(DELETED, "a-1", 5)
        scene.wire.on("GET", DELETED_PATH, *answers)
        async with scene.following(1_000_010, ("a", 1), ("b", 2)) as stream:
            for version in range(1_000_020, 1_000_025):
                await asyncio.sleep(10)
                stream.event("BOOKMARK", bookmark(version))
            await moments()
        assert scene.told.take() == ["ADDED ns/b@2", *told]
        assert len(scene.wire.sent("GET", DELETED_PATH)) == len(answers)

    async def test_reflector_sends_no_get_when_a_watch_event_confirms_the_deletion(self, scene: Scene):
        scene.store.observe_deletion(DELETED, "a-1", 5)
        async with scene.following(3, ("a", 1)) as stream:
            stream.event("BOOKMARK", bookmark(4))
            await moments()
            stream.event("DELETED", pod("a", 6))
            for version in (7, 8):
                stream.event("BOOKMARK", bookmark(version))
            await moments()
        assert scene.told.take() == []
        assert scene.wire.sent("GET", DELETED_PATH) == []


class TestReflectorOlderList:
    """A list that is older than the watch events, because another API server has sent it."""

    async def test_reflector_ignores_a_list_that_is_older_than_its_events_and_requests_another_list(
        self, scene: Scene
    ):
        now = Listed(13, ("a", 3), ("c", 12))
        older = [Listed(9, ("gone", 4), ("older", 2)), *[Unreached()] * 8, Listed(11, ("gone", 4))]
        scene.serve("list", Unreached())
        async with scene.following(10, ("a", 3), ("gone", 4), then=[*older, now]) as first:
            first.event("DELETED", pod("gone", 11))
            first.event("ADDED", pod("c", 12))
            await moments()
            scene.told.take()
            first.event("ERROR", expired())
            await now.opened.wait()
            await moments()
            assert scene.now > 60
            assert scene.told.take() == []
            assert scene.names == ["a", "c"]
            assert scene.problem is None
            now.event("ADDED", pod("d", 14))
            await moments()
            assert scene.told.take() == ["ADDED ns/d@14"]
        second, *others = [sent.query.get("resourceVersion") for sent in scene.sent("stream")][1:]
        assert (second, others[0], others[-1]) == (None, "12", "12")

    async def test_reflector_ignores_an_older_paged_list_and_requests_another_list(self, scene: Scene):
        watch = Stream()
        scene.serve("stream", NO_STREAMING)
        scene.serve(
            "list",
            page(10, ("a", 3)),
            page(9, ("gone", 4)),
            page(12, ("a", 3), resume="more"),
            page(12, ("b", 12)),
        )
        scene.serve("watch", watch, Stream())
        async with scene.running():
            await scene.synced()
            watch.event("ERROR", expired())
            await asyncio.sleep(20)
            assert scene.names == ["a", "b"]
        *_, again, rest = scene.sent("list")
        assert (again.query["resourceVersion"], again.query["resourceVersionMatch"]) == ("10", "NotOlderThan")
        assert "resourceVersion" not in rest.query  # an API server refuses it together with a continue token
        assert "resourceVersionMatch" not in rest.query


class TestReflectorProblem:
    async def test_reflector_reports_a_missing_permission_until_the_permission_is_granted(self, scene: Scene):
        scene.serve("stream", FORBIDDEN)
        async with scene.running():
            await asyncio.sleep(600)
            assert scene.problem == f"pods: forbidden: {CANNOT_WATCH}"
            assert not scene.sink.synced.is_set()
            assert 20 < len(scene.sent("stream")) < 50
            scene.serve("stream", Listed(10, ("a", 1)))
            await asyncio.sleep(30)
            assert scene.problem is None
            assert scene.names == ["a"]
        assert len(scene.warnings) == 4, "at once, and after one, three and seven minutes"
        assert sum(line["times"] for line in scene.warnings) > 15
        assert [line["event"] for line in scene.log if line["log_level"] == "info"] == ["the cache is synced"]

    async def test_reflector_keeps_cached_objects_while_watches_fail_and_logs_when_a_watch_works_again(
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
        assert scene.said == ["the cache is synced", "cannot watch", "the watch works again"]

    async def test_reflector_logs_its_recovery_once_when_the_first_event_arrives(self, scene: Scene):
        good = Stream()
        scene.serve("watch", *[Reply(200, b"")] * 40, good)
        scene.serve("list", page(10))
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.end()
            await asyncio.sleep(500)
            told = scene.said
            assert told[0] == "the cache is synced"
            assert told[1:] == ["cannot watch"] * (len(told) - 1)
            assert 1 < len(told) < 6
            await asyncio.sleep(1500)
            good.event("BOOKMARK", bookmark(20))
            await moments()
        assert scene.said[-1] == "the watch works again"
        assert scene.said.count("the watch works again") == 1

    async def test_reflector_reports_a_problem_only_after_the_second_failure_of_a_watch(self, scene: Scene):
        scene.serve("watch", LostBefore())
        async with scene.following(10) as stream:
            await asyncio.sleep(10)
            stream.cut()
            await moments()
            assert scene.problem is None
            await asyncio.sleep(2)
            assert scene.problem is not None

    async def test_reflector_reports_an_unserved_kind_until_the_kind_is_installed(self, scene: Scene):
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
    async def test_reflector_pauses_for_the_retry_after_time_up_to_30_seconds(
        self, scene: Scene, asked: str, seconds: float, how: str
    ):
        if how == "a header":
            refusal = Reply(429, b"", {"Retry-After": asked})
        else:
            refusal = Stream()
            status = f'{{"kind":"Status","code":429,"details":{{"retryAfterSeconds":{asked}}}}}'
            refusal.feed(f'{{"type":"ERROR","object":{status}}}\n'.encode())
        scene.serve("stream", refusal, Listed(10))
        await scene.sync()
        assert scene.now == pytest.approx(seconds)

    async def test_reflector_reports_a_problem_soon_when_the_server_demands_a_long_pause(self, scene: Scene):
        scene.serve("watch", Stream())
        async with scene.following(10, ("a", 1)) as stream:
            await asyncio.sleep(10)
            stream.event("ERROR", {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 200}})
            await asyncio.sleep(1)
            assert scene.problem is not None
            assert [line["event"] for line in scene.warnings] == ["cannot watch"]
            await asyncio.sleep(35)
            assert scene.problem is None


class TestReflectorRequestRate:
    """Number of requests during each type of lasting server failure."""

    async def test_watch_reopens_once_a_second_when_each_watch_ends_after_one_event(self, scene: Scene):
        versions = iter(range(11, 10_000))

        def one_event(_: object) -> Reply:
            return Reply(200, b'{"type":"MODIFIED","object":%b}\n' % encoded(pod("a", next(versions))))

        scene.serve("stream", Listed(10, ends=True))
        scene.serve("watch", one_event)
        async with scene.running():
            await asyncio.sleep(100)
            assert scene.problem is None
        assert 98 <= len(scene.sent("watch")) <= 101

    async def test_reflector_request_rate_is_low_when_every_resource_version_has_expired(self, scene: Scene):
        scene.serve("stream", NO_STREAMING)
        scene.serve("list", page(10, ("a", 1)))
        scene.serve("watch", Reply.status(410, "Expired"))
        async with scene.running():
            await asyncio.sleep(3600)
        assert 200 <= len(scene.sorts()) <= 500

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
    async def test_reflector_request_rate_is_low_when_every_watch_fails(
        self, scene: Scene, step: Reply, problem: str
    ):
        scene.serve("stream", Listed(10, ends=True))
        scene.serve("watch", step)
        async with scene.running():
            await asyncio.sleep(3600)
            assert problem in scene.problem
        assert 120 <= len(scene.sent("watch")) <= 250

    async def test_reflector_request_rate_is_low_when_every_watch_sends_malformed_data(self, scene: Scene):
        streams = [Listed(10) for _ in range(300)]
        for stream in streams:
            stream.feed(b"<html>\n")
        scene.serve("stream", *streams)
        async with scene.running():
            await asyncio.sleep(3600)
        assert 120 <= len(scene.sent("stream")) <= 250

    async def test_watch_backoff_resets_after_a_successful_watch(self, scene: Scene):
        good = Stream()
        scene.serve("stream", Listed(10, ends=True))
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
    async def test_reflector_releases_the_connection_of_its_list_or_watch_when_cancelled(
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

    @pytest.mark.parametrize("failure", [Unreached(), FORBIDDEN], ids=["unreachable", "refused"])
    async def test_reflector_ends_its_pause_at_once_when_it_is_cancelled(self, scene: Scene, failure: Step):
        scene.wire.on("GET", "/api/v1", failure)
        async with scene.running():
            while not scene.log or scene.log[-1]["delay"] <= 1:
                await moments()
            cancelled_at = scene.now
        assert scene.now == cancelled_at


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
def test_reflector_retry_rule_defines_the_next_state_and_the_pause_for_each_failure(
    failure: errors.KubeError, following: dict[State, State], pause: Pause
):
    rules = {state: rule_for(state, failure) for state in following}
    assert {state: rule.next or state for state, rule in rules.items()} == following
    assert {rule.pause for rule in rules.values()} == {pause}
