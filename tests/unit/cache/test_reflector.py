from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.cache.reflector import State
from manager.kube.errors import Forbidden
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.effort import turns_of_others
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Stall, Step, Stream, Unreached
from tests.unit.cache.conftest import Following, Make
from tests.unit.cache.objects import Pod, encoded, moments, pod
from tests.unit.cache.server import Listed, PodServer, bookmark, expired, longer_than_any_object, page
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time

FORBIDDEN = Reply.status(403, "Forbidden", 'pods is forbidden: User "x" cannot watch resource "pods"')
NO_STREAMING = Reply.status(422, "Invalid", "sendInitialEvents: Forbidden: forbidden for watch")


def restarts(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["reason"]: sample.value
        for metric in metrics.watch_restarts.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


class TestReflectorStreamingList:
    async def test_streaming_list_continues_as_the_watch(self, following: Following, server: PodServer):
        stream = Listed(10, ("a", 3), ("b", 7))
        server.on("stream", stream)
        async with following.running():
            await following.sink.synced.wait()
            assert [event.initial for event in following.told.events] == [True, True]
            assert following.told.take() == ["ADDED ns/a@3", "ADDED ns/b@7"]
            stream.event("MODIFIED", pod("a", 11))
            stream.event("ADDED", pod("c", 11))
            stream.event("DELETED", pod("b", 12))
            await moments()
            assert not any(event.initial for event in following.told.events)
            assert following.told.take() == ["MODIFIED ns/a@11", "ADDED ns/c@11", "DELETED ns/b@7"]
            assert following.reflector.state is State.WATCH
            assert following.reflector.problem is None
        assert server.sorts() == ["stream"]

    async def test_streaming_list_sends_the_needed_parameters(self, following: Following, server: PodServer):
        async with following.running():
            await moments()
        (sent,) = server.sent("stream")
        assert 300 <= int(sent.query["timeoutSeconds"]) <= 600
        assert {name: value for name, value in sent.query.items() if name != "timeoutSeconds"} == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        assert sent.headers["Accept"] == "application/json"

    async def test_reflector_is_synced_only_when_the_streaming_list_is_complete(
        self, following: Following, server: PodServer
    ):
        stream = Stream()
        stream.event("ADDED", pod("a", 3))
        server.on("stream", stream)
        async with following.running():
            await moments()
            assert following.names == ["a"]
            assert not following.sink.synced.is_set()
            stream.event("BOOKMARK", bookmark(3, ends_list=True))
            await moments()
            assert following.sink.synced.is_set()

    async def test_streaming_list_starts_again_when_the_stream_breaks(
        self, following: Following, server: PodServer
    ):
        broken = Stream()
        broken.event("ADDED", pod("a", 3))
        broken.event("ADDED", pod("b", 4))
        broken.cut()
        server.on("stream", broken, Listed(10, ("b", 9)))
        await following.sync()
        assert following.names == ["b"]
        assert following.told.take() == ["ADDED ns/a@3", "ADDED ns/b@4", "MODIFIED ns/b@9", "DELETED ns/a@3"]

    async def test_streaming_list_takes_changes_that_come_during_the_list(
        self, following: Following, server: PodServer
    ):
        stream = Stream()
        for name, version in (("a", 1), ("b", 2), ("c", 3)):
            stream.event("ADDED", pod(name, version))
        stream.event("MODIFIED", pod("a", 11))
        stream.event("DELETED", pod("b", 12))
        stream.event("ADDED", pod("d", 13))
        stream.event("BOOKMARK", bookmark(13, ends_list=True))
        server.on("stream", stream)
        await following.sync()
        assert {record.key.name: record.version for record in following.store} == {"a": 11, "c": 3, "d": 13}
        assert server.sorts() == ["stream"]

    async def test_reflector_sends_namespace_selectors_and_metadata_form(
        self, make: Make, wire: ScriptedWire
    ):
        server = PodServer(wire, "/api/v1/namespaces/one/pods")
        server.on("stream", NO_STREAMING)
        server.on("list", page(5, ("a", 1), resume="more"), page(5, ("b", 2)))
        following = make(namespace="one", metadata_only=True, labels="app=web", fields="spec.nodeName=n1")
        async with following.running():
            await moments()
        assert server.sorts() == ["stream", "list", "list", "watch"]
        for sent in wire.sent("GET", "/api/v1/namespaces/one/pods"):
            assert (sent.query["labelSelector"], sent.query["fieldSelector"]) == (
                "app=web",
                "spec.nodeName=n1",
            )
            form = "PartialObjectMetadata" if "watch" in sent.query else "PartialObjectMetadataList"
            assert sent.headers["Accept"] == f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"


class TestReflectorPagedList:
    @pytest.mark.parametrize("code", [400, 422])
    async def test_reflector_lists_pages_when_the_server_refuses_a_streaming_list(
        self, following: Following, server: PodServer, code: int
    ):
        server.on("stream", Reply.status(code, "", "what is sendInitialEvents?"))
        server.on(
            "list", page(10, ("a", 1), resume="p2"), page(10, ("b", 2), resume="p3"), page(10), page(20)
        )
        server.on("watch", Reply.status(410, "Expired"), Stall())
        async with following.running():
            await following.sink.synced.wait()
            assert asyncio.get_running_loop().time() == 0
            assert following.names == ["a", "b"]
            await asyncio.sleep(20)
            assert following.names == []
        assert server.sorts() == ["stream", "list", "list", "list", "watch", "list", "watch"]
        first, second, third, *_ = server.sent("list")
        assert (first.query["limit"], first.query.get("continue")) == ("500", None)
        assert (second.query["limit"], second.query["continue"]) == ("500", "p2")
        assert third.query["continue"] == "p3"
        assert server.sent("watch")[0].query["resourceVersion"] == "10"

    async def test_reflector_accepts_a_page_that_is_longer_than_any_object(
        self, following: Following, server: PodServer
    ):
        server.on("stream", Reply.status(400, "", "what is sendInitialEvents?"))
        server.on("list", longer_than_any_object(page(10, ("a", 1))))
        await following.sync()
        assert following.names == ["a"]

    async def test_reflector_yields_to_the_loop_between_large_objects_of_a_page(
        self, make: Make, server: PodServer
    ):
        async def turns(size: int) -> int:
            items = [pod(f"p{number}", number, spec={"filler": "x" * size}) for number in range(1, 21)]
            server.on("stream", Reply.status(400, "", "what is sendInitialEvents?"))
            server.on("list", Reply.json({"metadata": {"resourceVersion": "30"}, "items": items}))
            return await turns_of_others(make().sync())

        assert await turns(70_000) >= await turns(7) + 20

    @pytest.mark.parametrize(
        ("answer", "seconds"), [("a bookmark that does not end the list", 0), ("a list", 0), ("none", 90)]
    )
    async def test_reflector_lists_pages_when_the_server_does_not_stream_the_list(
        self, following: Following, server: PodServer, answer: str, seconds: float
    ):
        stream = Stream()
        if answer.startswith("a bookmark"):
            stream.event("ADDED", pod("a", 3))
            stream.event("BOOKMARK", bookmark(5))
        server.on("stream", page(10, ("a", 3)) if answer == "a list" else stream)
        server.on("list", page(10, ("a", 3)))
        await following.sync()
        assert server.sorts()[:2] == ["stream", "list"]
        assert seconds <= asyncio.get_running_loop().time() <= seconds + 2


class TestReflectorPages:
    @pytest.fixture(autouse=True)
    def without_streaming(self, server: PodServer):
        server.on("stream", NO_STREAMING)

    async def test_list_is_fetched_in_one_answer_when_its_pages_expire(
        self, following: Following, server: PodServer
    ):
        server.on("list", page(10, ("a", 1), resume="p2"), Reply.status(410, "Expired"), page(20, ("b", 2)))
        await following.sync()
        whole = server.sent("list")[2]
        assert "limit" not in whole.query
        assert "continue" not in whole.query
        assert following.names == ["b"]

    async def test_page_with_a_deeply_nested_object_yields_every_object(
        self, following: Following, server: PodServer
    ):
        answer = page(10, ("a", 1), ("deep", 2), ("b", 3))
        nested = b"[" * 5_000 + b"]" * 5_000
        body = answer.body.replace(b'"name":"deep"', b'"managedFields":%b,"name":"deep"' % nested)
        server.on("list", replace(answer, body=body))
        await following.sync()
        assert following.names == ["a", "b", "deep"]

    async def test_page_of_garbage_is_a_problem(self, following: Following, server: PodServer):
        server.on("list", Reply(200, b"<html>login</html>"))
        async with following.running():
            await asyncio.sleep(5)
            assert following.reflector.problem is not None
            assert following.reflector.problem.startswith("pods: GET /api/v1/pods: not a list: ")

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("objects", [(), (("a", 1),)])
    async def test_page_that_links_to_itself_is_a_problem_and_the_list_is_retried_later(
        self, following: Following, server: PodServer, objects: tuple[tuple[str, int], ...]
    ):
        server.on("list", page(10, *objects, resume="a"))
        async with following.running():
            await asyncio.sleep(5)
            problem = following.reflector.problem
        assert problem == "pods: GET /api/v1/pods: not a list: a page of it links to itself"
        assert len(server.sent("list")) < 20

    async def test_list_of_endless_empty_pages_is_a_problem(self, following: Following, server: PodServer):
        server.on("list", *(page(10, resume=str(number)) for number in range(1, 10_000)))
        async with following.running():
            await asyncio.sleep(0.1)
            assert len(server.sent("list")) == 1001
            await asyncio.sleep(5)
            problem = following.reflector.problem
        assert problem == "pods: GET /api/v1/pods: not a list: 1001 consecutive pages are empty"

    async def test_list_accepts_empty_pages_between_others(self, following: Following, server: PodServer):
        empty = [page(10, resume=str(number)) for number in range(1, 500)]
        server.on("list", *empty, page(10, ("a", 1), resume="x"), *empty, page(10, ("b", 2)))
        await following.sync()
        assert following.names == ["a", "b"]

    async def test_page_fills_in_the_kind_of_its_objects(self, following: Following, server: PodServer):
        server.on("list", page(10, ("a", 1)))
        await following.sync()
        (record,) = following.store
        assert record.decode(Pod).kind == "Pod"


class TestReflectorWatch:
    @pytest.mark.parametrize("last", [("ADDED", pod("a", 15)), ("BOOKMARK", bookmark(15))])
    async def test_watch_resumes_from_the_last_event(
        self, following: Following, server: PodServer, last: tuple[str, dict[str, Any]]
    ):
        stream = Listed(10)
        server.on("stream", stream)
        async with following.running():
            await following.sink.synced.wait()
            stream.event(*last)
            stream.end()
            await asyncio.sleep(2)
        assert [sent.query["resourceVersion"] for sent in server.sent("watch")] == ["15"]

    async def test_watch_reopens_at_once_without_a_problem_when_it_ends_in_good_order(
        self, following: Following, server: PodServer, metrics: Metrics
    ):
        stream = Listed(10)
        server.on("stream", stream)
        async with following.running():
            await asyncio.sleep(30)
            stream.end()
            await moments()
            assert len(server.sent("watch")) == 1
            assert following.reflector.problem is None
        assert restarts(metrics) == {"closed": 1}

    async def test_watch_is_replaced_when_it_stays_silent(
        self, following: Following, server: PodServer, metrics: Metrics
    ):
        stream = Listed(10)
        server.on("stream", stream)
        server.on("list", page(10))
        async with following.running():
            await asyncio.sleep(89)
            assert server.sent("watch") == []
            await asyncio.sleep(2)
            assert len(server.sent("watch")) == 1
            assert stream.closed
            assert following.reflector.problem is None
        assert restarts(metrics) == {"silent": 1}

    async def test_watch_stays_open_when_it_sends_only_bookmarks(
        self, following: Following, server: PodServer
    ):
        stream = Listed(10)
        server.on("stream", stream)
        async with following.running():
            for version in range(11, 31):
                await asyncio.sleep(60)
                stream.event("BOOKMARK", bookmark(version))
        assert server.sorts() == ["stream"]

    async def test_watch_reopens_after_a_pause_when_it_breaks(self, following: Following, server: PodServer):
        stream, after = Listed(10, ("a", 1)), Stream()
        server.on("stream", stream)
        server.on("watch", after)
        async with following.running():
            await asyncio.sleep(20)
            stream.cut()
            await moments()
            assert following.reflector.state is State.WAIT
            await after.opened.wait()
            await moments()
            assert 20.8 <= asyncio.get_running_loop().time() <= 21.7
            assert following.reflector.problem is None
            after.event("MODIFIED", pod("a", 11))
            await moments()
            assert following.told.take() == ["ADDED ns/a@1", "MODIFIED ns/a@11"]

    async def test_watch_drops_half_a_line_and_resumes_before_its_event(
        self, following: Following, server: PodServer
    ):
        stream, after = Listed(10), Stream()
        server.on("stream", stream)
        server.on("watch", after)
        line = b'{"type":"ADDED","object":%b}' % encoded(pod("a", 11))
        async with following.running():
            await following.sink.synced.wait()
            stream.feed(line[:70])
            stream.end()
            await after.opened.wait()
            assert server.sent("watch")[0].query["resourceVersion"] == "10"
            after.feed(line + b"\n")
            await moments()
            assert following.told.take() == ["ADDED ns/a@11"]

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
    async def test_reflector_lists_again_after_a_pause_when_the_watch_sends_garbage(
        self, following: Following, server: PodServer, metrics: Metrics, line: bytes
    ):
        stream, after = Listed(10), Listed(20, ("b", 20))
        server.on("stream", stream, after)
        async with following.running():
            await following.sink.synced.wait()
            stream.feed(line)
            await after.opened.wait()
            assert asyncio.get_running_loop().time() >= 0.8
            await moments()
            assert following.told.take() == ["ADDED ns/b@20"]
        assert server.sorts() == ["stream", "stream"]
        assert restarts(metrics) == {"garbage": 1}

    @pytest.mark.parametrize("depth", [400, 2_000, 100_000])
    async def test_watch_takes_a_deeply_nested_object_and_continues(
        self, following: Following, server: PodServer, depth: int
    ):
        stream = Listed(10, ("a", 1))
        server.on("stream", stream)
        async with following.running():
            await following.sink.synced.wait()
            deep = pod("deep", 11) | {"spec": "HERE"}
            deep["metadata"]["managedFields"] = [{"manager": "somebody", "fieldsV1": "HERE"}]
            nested = b'{"f:a\\"}[{":' * depth + b"1" + b"}" * depth
            event = b'{"type":"ADDED","object":%b}\n' % encoded(deep).replace(b'"HERE"', nested)
            stream.feed(event)
            stream.event("ADDED", pod("after", 12))
            await asyncio.sleep(1)
            assert following.told.take() == ["ADDED ns/a@1", "ADDED ns/deep@11", "ADDED ns/after@12"]
            assert following.reflector.problem is None

    async def test_reflector_lists_again_and_reports_deletions_when_the_watch_expired(
        self, following: Following, server: PodServer, metrics: Metrics
    ):
        stream = Listed(10, ("a", 1), ("b", 2), ("c", 3))
        server.on("stream", stream, Listed(30, ("b", 2), ("c", 25), ("d", 26)))
        server.on("watch", Reply.status(410, "Expired", "too old resource version"))
        async with following.running():
            await asyncio.sleep(10)
            following.told.take()
            stream.end()
            await asyncio.sleep(5)
            assert following.told.take() == ["DELETED ns/a@1", "MODIFIED ns/c@25", "ADDED ns/d@26"]
        assert server.sorts() == ["stream", "check", "watch", "stream"]
        assert restarts(metrics) == {"closed": 1, "expired": 1}

    async def test_reflector_lists_at_once_when_the_watch_expired_during_an_outage(
        self, following: Following, server: PodServer, log_lines: LogLines
    ):
        stream, again = Listed(10, ("a", 1)), Listed(30)
        server.on("stream", stream, again)
        server.on("watch", *[Unreached()] * 8, Reply.status(410, "Expired", "too old resource version"))
        async with following.running():
            await asyncio.sleep(10)
            stream.cut()
            await again.opened.wait()
            refused, listed = server.sent("watch")[-1], server.sent("stream")[-1]
            assert listed.at - refused.at <= 2
            assert following.reflector.problem is not None
            await moments()
            assert following.reflector.problem is None
        warned = [line["reason"] for line in log_lines if line["log_level"] == "warning"]
        assert set(warned) == {"lost"}, "the list tells whether there is still a problem"

    async def test_watch_reopens_when_an_unreachable_server_answers_another_request(
        self, following: Following, server: PodServer, wire: ScriptedWire, transport: Transport
    ):
        stream, again = Listed(10, ("a", 1)), Stream()
        server.on("stream", stream)
        server.on("watch", Unreached())
        wire.on("GET", "/api/v1/nodes/n", Reply.status(403))
        async with following.running():
            await asyncio.sleep(10)
            stream.cut()
            await asyncio.sleep(100)
            server.on("watch", again)
            answered = asyncio.get_running_loop().time()
            with pytest.raises(Forbidden):
                await transport.request("GET", "/api/v1/nodes/n")
            await again.opened.wait()
            assert asyncio.get_running_loop().time() - answered <= 1

    @pytest.mark.parametrize("refused", [None, 1])
    async def test_watch_is_retried_soon_when_the_server_refuses_it_after_an_outage(
        self, following: Following, server: PodServer, refused: int | None
    ):
        # The server's answer while it opens the storage of a kind.
        refusal = Reply.status(429, "TooManyRequests", "storage is (re)initializing", retry_after=refused)
        stream, again = Listed(10, ("a", 1)), Stream()
        server.on("stream", stream)
        server.on("watch", *[Unreached()] * 8, refusal, refusal, again)
        async with following.running():
            await asyncio.sleep(10)
            stream.cut()
            await again.opened.wait()
        first, second, good = (request.at for request in server.sent("watch")[-3:])
        assert second - first <= 2
        assert good - second <= (1.01 if refused else 4)

    async def test_watch_reopens_without_a_pause_when_it_is_quiet_and_short(
        self, following: Following, server: PodServer
    ):
        stream = Listed(10)
        stream.end()
        server.on("stream", stream)
        quiet = [Stream() for _ in range(50)]
        server.on("watch", *quiet)
        async with following.running():
            for watch in quiet[:40]:
                await watch.opened.wait()
                await asyncio.sleep(2)
                watch.end()
            assert following.reflector.problem is None
            assert asyncio.get_running_loop().time() < 83

    async def test_store_keeps_the_old_content_until_the_new_list_is_complete(
        self, following: Following, server: PodServer
    ):
        stream, again = Listed(10, ("a", 1), ("b", 2)), Stream()
        server.on("stream", stream, again)
        async with following.running():
            await asyncio.sleep(10)
            stream.event("ERROR", expired())
            again.event("ADDED", pod("b", 20))
            again.event("ADDED", pod("c", 21))
            await asyncio.sleep(1)
            assert {record.key.name: record.version for record in following.store} == {"a": 1, "b": 2}
            again.event("BOOKMARK", bookmark(30, ends_list=True))
            await moments()
            assert {record.key.name: record.version for record in following.store} == {"b": 20, "c": 21}

    async def test_reflector_takes_the_older_list_of_a_restored_server_in_the_end(
        self, following: Following, server: PodServer, metrics: Metrics
    ):
        stream = Listed(50, ("a", 45))
        server.on("stream", stream, *[Listed(41, ("a", 30)) for _ in range(20)])
        async with following.running():
            await asyncio.sleep(10)
            stream.event("BOOKMARK", bookmark(40))
            await asyncio.sleep(20)
            assert following.told.take() == ["ADDED ns/a@45"]
            assert following.reflector.problem == "pods: the server lists version 41, after 50"
            await asyncio.sleep(60)
            assert following.told.take() == ["MODIFIED ns/a@30"]
            assert following.reflector.problem is None
        first, second, *others, last = server.sent("stream")
        assert "resourceVersion" not in first.query.keys() | second.query.keys() | last.query.keys()
        for sent in others:
            assert sent.query["resourceVersion"] == "50"
            assert sent.query["resourceVersionMatch"] == "NotOlderThan"
        assert 3 < restarts(metrics)["stale"] < 10

    async def test_silent_watch_of_a_restored_server_leads_to_a_list(
        self, following: Following, server: PodServer, metrics: Metrics
    ):
        """A watch from a version that has not been brings nothing, not even bookmarks, until it has."""
        too_large = Reply.status(504, "Timeout", "Too large resource version: 50, current: 41")

        def stream(sent: Sent) -> Step:
            return too_large if "resourceVersion" in sent.query else Listed(41, ("a", 30))

        server.on("stream", Listed(50, ("a", 45)), stream)
        server.on("list", too_large)
        server.on("check", page(41, ("a", 30)))
        async with following.running():
            await asyncio.sleep(10)
            assert following.told.take() == ["ADDED ns/a@45"]
            await asyncio.sleep(180)
            assert following.told.take() == ["MODIFIED ns/a@30"]
            assert following.reflector.problem is None
        assert "resourceVersion" not in server.sent("check")[0].query
        assert restarts(metrics)["silent"] == 1

    @pytest.mark.parametrize(
        ("now", "events"),
        [
            # Other clients have written since the restore, so the version is as high as before.
            pytest.param([("a", 30), ("b", 20)], ["MODIFIED ns/b@20"], id="newest is older"),
            pytest.param([("a", 30), ("b", 48)], ["MODIFIED ns/b@48"], id="newest changed before"),
            pytest.param([("a", 30)], ["DELETED ns/b@45"], id="newest is gone"),
            pytest.param([("a", 30), ("c", 40)], ["DELETED ns/b@45", "ADDED ns/c@40"], id="as many"),
            pytest.param([("a", 30), ("b", 45), ("c", 40)], ["ADDED ns/c@40"], id="a deleted one is back"),
            pytest.param(
                [("a", 25), ("b", 75)], ["MODIFIED ns/a@25", "MODIFIED ns/b@75"], id="next is older"
            ),
            pytest.param([("a", 70), ("b", 75)], ["MODIFIED ns/a@70", "MODIFIED ns/b@75"], id="all changed"),
            pytest.param([("a", 30), ("b", 45)], None, id="nothing happened"),
            pytest.param([("a", 30), ("b", 75)], None, id="newest changed since"),
        ],
    )
    @pytest.mark.parametrize("end", ["closed", "lost"])
    async def test_lost_watch_resumes_only_where_the_server_has_the_same_history(
        self,
        following: Following,
        server: PodServer,
        now: list[tuple[str, int]],
        events: list[str] | None,
        end: str,
    ):
        def check(sent: Sent) -> Step:
            field = sent.query.get("fieldSelector", "")
            return page(80, *(each for each in now if field in {"", f"metadata.name={each[0]}"}))

        stream = Listed(50, ("a", 30), ("b", 45))
        server.on("stream", stream, Listed(81, *now))
        server.on("check", check)
        server.on("watch", Stream())
        async with following.running():
            await asyncio.sleep(10)
            following.told.take()
            stream.end() if end == "closed" else stream.cut()
            await asyncio.sleep(4)
            assert sorted(following.told.take()) == sorted(events or [])
            assert following.reflector.problem is None
        assert len(server.sent("watch")) == (events is None)

    async def test_list_replaces_a_restored_object_of_the_same_version(
        self, following: Following, server: PodServer
    ):
        stream, again = Listed(50, ("a", 30), ("b", 45)), Stream()
        again.event("ADDED", pod("a", 30, labels={"restored": "yes"}))
        again.event("ADDED", pod("b", 20))
        again.event("BOOKMARK", bookmark(81, ends_list=True))
        server.on("stream", stream, again)
        server.on("check", page(80, ("b", 20), resume="more"))
        async with following.running():
            await asyncio.sleep(10)
            following.told.take()
            stream.cut()
            await asyncio.sleep(4)
            assert sorted(following.told.take()) == ["MODIFIED ns/a@30", "MODIFIED ns/b@20"]

    async def test_watch_that_ended_in_time_resumes_without_a_check(
        self, following: Following, server: PodServer
    ):
        stream = Listed(10, ("a", 1))
        server.on("stream", stream)
        server.on("watch", Stream())
        async with following.running():
            await moments()
            seconds = int(server.sent("stream")[0].query["timeoutSeconds"])
            for version in range(20, 20 + seconds // 60):
                await asyncio.sleep(60)
                stream.event("BOOKMARK", bookmark(version))
            await asyncio.sleep(seconds % 60)
            stream.end()
            await asyncio.sleep(2)
        assert server.sorts() == ["stream", "watch"]

    @pytest.mark.parametrize("sort", ["stream", "list"])
    async def test_reflector_takes_an_older_list_when_the_server_says_it_is_behind(
        self, following: Following, server: PodServer, sort: str
    ):
        too_large = Reply.status(504, "Timeout", "Too large resource version: 50, current: 41")

        def answer(sent: Sent) -> Step:
            if "resourceVersion" in sent.query:
                return too_large
            return Listed(41, ("a", 30)) if sort == "stream" else page(41, ("a", 30))

        stream = Listed(50, ("a", 45))
        if sort == "list":
            server.on("stream", NO_STREAMING)
            server.on("list", page(50, ("a", 45)), answer)
        else:
            server.on("stream", stream, answer)
            server.on("list", answer)
        watch = Stream()
        server.on("watch", watch, Stream())
        async with following.running():
            await following.sink.synced.wait()
            await moments()
            (stream if sort == "stream" else watch).event("ERROR", expired())
            await asyncio.sleep(20)
            assert following.told.take() == ["ADDED ns/a@45"]
            await asyncio.sleep(90)
            assert following.told.take() == ["MODIFIED ns/a@30"]


DELETED = ObjectKey("ns", "a")
DELETED_PATH = "/api/v1/namespaces/ns/pods/a"


class TestReflectorDeletedObject:
    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (Reply.json(pod("a", 1)), ["ADDED ns/a@1"]),
            (Reply.json(pod("a", 30, uid="another")), ["ADDED ns/a@30"]),
            (Reply.status(404, "NotFound", 'pods "a" not found'), []),
        ],
    )
    async def test_deleted_object_is_read_from_the_server_when_no_watch_reports_its_end(
        self, following: Following, server: PodServer, wire: ScriptedWire, answer: Reply, told: list[str]
    ):
        """A backup that has it was restored since, or the list was behind."""
        following.store.observe_deletion(DELETED, "a-1", 5)
        stream = Listed(1_000_010, ("a", 1), ("b", 2))
        server.on("stream", stream)
        wire.on("GET", DELETED_PATH, answer)
        async with following.running():
            for version in (1_000_020, 1_000_030, 1_000_040):
                await asyncio.sleep(10)
                stream.event("BOOKMARK", bookmark(version))
            await moments()
        assert following.told.take() == ["ADDED ns/b@2", *told]
        assert len(wire.sent("GET", DELETED_PATH)) == 1

    async def test_deleted_object_is_not_read_when_a_late_watch_reports_its_end(
        self, following: Following, server: PodServer, wire: ScriptedWire
    ):
        following.store.observe_deletion(DELETED, "a-1", 5)
        stream = Listed(3, ("a", 1))
        server.on("stream", stream)
        async with following.running():
            stream.event("BOOKMARK", bookmark(4))
            await moments()
            stream.event("DELETED", pod("a", 6))
            for version in (7, 8):
                stream.event("BOOKMARK", bookmark(version))
            await moments()
        assert following.told.take() == []
        assert wire.sent("GET", DELETED_PATH) == []

    async def test_deleted_object_is_read_again_when_the_first_read_fails(
        self, following: Following, server: PodServer, wire: ScriptedWire
    ):
        following.store.observe_deletion(DELETED, "a-1", 5)
        stream = Listed(1_000_010, ("a", 1))
        server.on("stream", stream)
        wire.on("GET", DELETED_PATH, FORBIDDEN, Reply.json(pod("a", 1)))
        async with following.running():
            for version in range(1_000_020, 1_000_025):
                await asyncio.sleep(10)
                stream.event("BOOKMARK", bookmark(version))
            await moments()
        assert following.told.take() == ["ADDED ns/a@1"]


class TestReflectorOlderList:
    """List from a server that lags behind the one that sent the watch events."""

    async def test_older_list_is_ignored_and_requested_again(self, following: Following, server: PodServer):
        first = Listed(10, ("a", 3), ("gone", 4))
        now = Listed(13, ("a", 3), ("c", 12))
        server.on("stream", first, Listed(9, ("gone", 4), ("older", 2)), Listed(11, ("gone", 4)), now)
        async with following.running():
            await following.sink.synced.wait()
            first.event("DELETED", pod("gone", 11))
            first.event("ADDED", pod("c", 12))
            await moments()
            following.told.take()
            first.event("ERROR", expired())
            await asyncio.sleep(20)
            assert following.told.take() == []
            assert following.names == ["a", "c"]
            assert following.reflector.problem is None
            now.event("ADDED", pod("d", 14))
            await moments()
            assert following.told.take() == ["ADDED ns/d@14"]
        assert [sent.query.get("resourceVersion") for sent in server.sent("stream")] == [
            None,
            None,
            "12",
            "12",
        ]

    async def test_older_list_is_ignored_when_the_previous_one_was_long_ago(
        self, following: Following, server: PodServer
    ):
        first, now = Listed(10, ("a", 3)), Listed(11, ("a", 3))
        unreachable = [Unreached() for _ in range(8)]
        older = [Listed(9, ("gone", 4)), *unreachable, Listed(9, ("gone", 4)), now]
        server.on("stream", first, *older)
        server.on("list", Unreached())
        async with following.running():
            await following.sink.synced.wait()
            first.event("ERROR", expired())
            await asyncio.sleep(600)
            assert (following.names, following.sink.version) == (["a"], 11)

    async def test_older_list_of_pages_is_ignored_and_requested_again(
        self, following: Following, server: PodServer
    ):
        watch = Stream()
        server.on("stream", NO_STREAMING)
        server.on(
            "list",
            page(10, ("a", 3)),
            page(9, ("gone", 4)),
            page(12, ("a", 3), resume="more"),
            page(12, ("b", 12)),
        )
        server.on("watch", watch, Stream())
        async with following.running():
            await following.sink.synced.wait()
            watch.event("ERROR", expired())
            await asyncio.sleep(20)
            assert following.names == ["a", "b"]
        *_, again, rest = server.sent("list")
        assert (again.query["resourceVersion"], again.query["resourceVersionMatch"]) == ("10", "NotOlderThan")
        assert "resourceVersion" not in rest.query  # which a server refuses beside the token of a page
        assert "resourceVersionMatch" not in rest.query
