"""Status writes that keep the changes of other writers, and merge patches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from devcluster.errors import StatusError
from devcluster.patch.json_patch import json_patch, merge_patch
from manager.api import ApiModel, Resource
from manager.client.write import fold_string_data, merge_diff
from manager.kube.errors import Conflict, ConnectionLost, Invalid, ProtocolError, ServerError
from tests.support.scripted_wire import LostAfter, Reply, ScriptedWire, Sent, Step
from tests.unit.connected import connected

PATH = "/apis/example.com/v1/namespaces/ns/things/a"
SERVED = {"resources": [{"name": "things", "kind": "Thing", "namespaced": True}]}

Status = dict[str, Any]


class Thing(Resource, group="example.com", version="v1", plural="things"):
    status: dict[str, Any] = Field(default_factory=dict)


class Counts(ApiModel):
    ready: int = 0
    notes: dict[str, str] = Field(default_factory=dict)


class Counted(Thing):
    """Thing whose status fields have defaults."""

    status: Counts = Field(default_factory=Counts)


class Server:
    """Server with one object that another writer can change right before each of our writes."""

    def __init__(self, status: Status | None, *, before: Callable[[Server], None] = lambda _: None) -> None:
        self.version = 1
        self.uid = "1"
        self.status = status
        self._before = before
        self.refused: Reply | None = None
        """Response to patches that would change the object; None to accept these patches."""
        self.lost: Callable[[Reply], Step] | None = None
        """Function that replaces the response to an accepted patch; None to keep the response."""
        self.wire = ScriptedWire()
        self.wire.on("GET", "/apis/example.com/v1", Reply.json(SERVED))
        self.wire.on("GET", PATH, Reply.status(403, "Forbidden", "who may write a status may not get"))
        self.wire.on("PATCH", f"{PATH}/status", self._patch)
        self.client = connected(self.wire).client

    @property
    def object(self) -> dict[str, Any]:
        metadata = {"name": "a", "namespace": "ns", "uid": self.uid, "resourceVersion": str(self.version)}
        return {"metadata": metadata} | ({} if self.status is None else {"status": self.status})

    @property
    def writes(self) -> int:
        """Return the number of patches that change the object."""
        return sum(len(sent.json()) > 1 for sent in self.wire.sent("PATCH"))

    def read(self) -> Thing:
        return Thing.decode(orjson.dumps(self.object))

    async def report(self, thing: Thing) -> bool:
        """Call `status.report` with a cache that has the server's current object."""
        return await self.client.status.report(thing, cached=lambda: orjson.dumps(self.object))

    def _patch(self, sent: Sent) -> Step:
        if len(sent.json()) > 1:
            if self.refused is not None:
                return self.refused
            self._before(self)
        try:
            self.status = json_patch(self.object, sent.json()).get("status")
        except StatusError:
            return Reply.status(422, "Invalid", "the server rejected our request")
        self.version += 1
        reply = Reply.json(self.object)
        return reply if self.lost is None else self.lost(reply)


def condition(kind: str, message: str) -> Status:
    return {"type": kind, "status": "True", "message": message}


def conditions(kinds: str) -> st.SearchStrategy[list[Status]]:
    chosen = st.dictionaries(st.sampled_from(kinds), st.sampled_from(["1", "2"]))
    return chosen.map(lambda found: [condition(*each) for each in found.items()])


@st.composite
def statuses(draw: st.DrawFn, kinds: str, fields: str) -> Status:
    """Draw a status with any number of these fields and conditions."""
    status: Status = draw(st.dictionaries(st.sampled_from(fields), st.integers(0, 2)))
    return status | draw(st.one_of(st.just({}), conditions(kinds).map(lambda found: {"conditions": found})))


def joined(ours: Status, theirs: Status) -> Status:
    both = [*ours.get("conditions", ()), *theirs.get("conditions", ())]
    return {**ours, **theirs} | ({"conditions": both} if both else {})


def parts(status: Status | None) -> dict[str, Any]:
    """Return a status with its conditions by type, so that comparisons ignore their order."""
    found = dict(status or {})
    return {**found, "conditions": {each["type"]: each for each in found.pop("conditions", ())}}


OURS, THEIRS = statuses("AB", "ab"), statuses("CD", "cd")


@given(st.one_of(st.none(), st.just({}), OURS), THEIRS, OURS, THEIRS)
async def test_status_report_keeps_the_changes_of_two_concurrent_writers(
    ours: Status | None, theirs: Status, wanted: Status, others: Status
):
    def interfere(server: Server) -> None:
        mine = {name: value for name, value in (server.status or {}).items() if name in "ab"}
        kept = [each for each in (server.status or {}).get("conditions", ()) if each["type"] in "AB"]
        server.status = joined({**mine, **({"conditions": kept} if kept else {})}, others)

    server = Server(None if ours is None else joined(ours, theirs), before=interfere)
    thing = server.read()
    read = copy.deepcopy(thing.status)
    # Our status still has the other writers' part, in the old state that we read.
    thing.status = joined(wanted, {} if ours is None else theirs)
    await server.report(thing)
    if server.writes:
        assert parts(server.status) == parts(joined(wanted, others))
    else:
        assert parts(thing.status) == parts(read)


async def test_first_status_patch_keeps_fields_that_another_writer_has_set_meanwhile():
    def interfere(server: Server) -> None:
        server.status = server.status or {"ready": 7}

    server = Server(None, before=interfere)
    counted = Counted.decode(orjson.dumps(server.object))
    counted.status.notes["a"] = "ours"
    stored = await server.client.status.patch(counted)
    assert (stored.status.ready, stored.status.notes) == (7, {"a": "ours"})


async def test_status_report_sends_one_patch_when_there_is_no_other_writer():
    server = Server(joined({"a": 1}, {"conditions": [condition("A", "1")]}))
    thing = server.read()
    thing.status["conditions"] = [condition("A", "2")]
    assert not await server.report(thing)
    assert [sent.method for sent in server.wire.requests if sent.path.startswith(PATH)] == ["PATCH"]
    assert server.status == {"a": 1, "conditions": [condition("A", "2")]}


@pytest.mark.parametrize(
    "since", [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 2}, {"a": 1, "conditions": [condition("A", "1")]}]
)
async def test_status_report_requests_a_reconcile_when_another_writer_changed_a_different_field(
    since: dict[str, Any],
):
    server = Server({"a": 1, "b": 1})
    thing = server.read()
    thing.status = {"a": 3, "b": 1}
    server.status = since
    assert await server.report(thing) is (since.get("b") != 1)
    assert server.status == {**since, "a": 3}
    thing = server.read()
    thing.status["a"] = 4
    assert not await server.report(thing)


async def test_status_report_requests_no_reconcile_when_another_writer_overwrites_the_reported_value():
    """The watch event of the other write causes a reconcile, so the report requests none."""
    server = Server({"a": 1})
    thing = server.read()
    thing.status = {"a": 2}
    later = orjson.dumps(server.object | {"status": {"a": 3}})
    assert not await server.client.status.report(thing, cached=lambda: later)


async def test_status_patch_returns_the_current_object_of_the_server():
    server = Server({"a": 1})
    thing = server.read()
    assert await server.client.status.patch(thing) is thing
    assert server.writes == 0
    thing.status["b"] = 2
    server.status = {"a": 3}
    written = await server.client.status.patch(thing)
    assert (written.status, written.metadata.resource_version) == ({"a": 3, "b": 2}, "2")


async def test_status_patch_raises_conflict_when_the_object_was_recreated():
    server = Server({"a": 1})
    thing = server.read()
    thing.status["a"] = 2
    server.uid = "2"
    with pytest.raises(Conflict, match=r"^Thing ns/a was replaced by another object of its name$"):
        await server.client.status.patch(thing)
    assert server.status == {"a": 1}


async def test_status_report_raises_conflict_when_another_client_writes_before_each_attempt():
    def again(server: Server) -> None:
        server.version += 1
        server.status = {"conditions": [condition("C", str(server.version))]}

    server = Server({}, before=again)
    thing = server.read()
    thing.status = {"conditions": [condition("A", "1")]}
    with pytest.raises(Conflict, match="keeps being changed"):
        await server.report(thing)
    assert server.writes == 5


async def test_status_patch_is_not_repeated_when_another_writer_wrote_the_same_status():
    def the_same(server: Server) -> None:
        server.status = {"conditions": [condition("A", "1")]}

    server = Server({}, before=the_same)
    thing = server.read()
    thing.status = {"conditions": [condition("A", "1")]}
    assert (await server.client.status.patch(thing)).status == thing.status
    assert server.writes == 1


async def test_status_report_overwrites_a_conditions_list_with_malformed_items():
    server = Server({"conditions": ["cold"]})
    thing = server.read()
    thing.status = {"conditions": ["warm"]}
    server.status = {"conditions": ["wet"]}
    assert not await server.report(thing)
    assert server.status == {"conditions": ["warm"]}


async def test_status_report_raises_invalid_error_when_the_server_refuses_the_value():
    server = Server({})
    server.refused = Reply.status(422, "Invalid", "status.a: too odd")
    thing = server.read()
    thing.status = {"a": 1}
    with pytest.raises(Invalid, match="too odd"):
        await server.report(thing)
    assert server.writes == 1


async def test_status_patch_raises_protocol_error_when_the_server_returns_a_malformed_object():
    server = Server({"a": 1})
    thing = server.read()
    server.refused = Reply.status(422, "Invalid", "the server rejected our request")
    server.lost = lambda _: Reply.json({**server.object, "status": "hunter2"})
    thing.status = {"a": 2}
    with pytest.raises(ProtocolError, match=r"^not a Thing object$"):
        await server.client.status.patch(thing)


@pytest.mark.parametrize(
    "lost", [LostAfter, lambda _: Reply.status(500, "InternalError")], ids=["cut off", "500"]
)
async def test_status_report_after_a_lost_response_sends_a_patch_even_if_the_cache_has_the_desired_status(
    lost: Callable[[Reply], Step],
):
    server = Server({"text": "good", "conditions": [condition("Ready", "good"), condition("Theirs", "x")]})
    cached = server.read()
    server.lost = lost
    worse = server.read()
    conditions = [condition("Ready", "bad"), condition("Theirs", "x")]
    worse.status = {"text": "bad", "more": "of it", "conditions": conditions}
    with pytest.raises((ConnectionLost, ServerError)):
        await server.report(worse)
    server.status["conditions"] = [condition("Ready", "bad"), condition("Theirs", "y")]
    server.lost = None
    # The desired status equals the stale status in the cache.
    assert await server.report(cached)
    assert server.status == {
        "text": "good",
        "conditions": [condition("Ready", "good"), condition("Theirs", "y")],
    }
    assert not await server.report(server.read())
    assert [len(sent.json()) for sent in server.wire.sent("PATCH")][1] == 1


async def test_status_writer_remembers_a_limited_number_of_lost_responses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("manager.client.write._MOST_IN_DOUBT", 2)
    server = Server({})
    things = [Thing.decode(orjson.dumps(server.object)) for _ in range(3)]
    for name, thing in zip("abc", things, strict=True):
        thing.metadata.name = name
        thing.status = {"text": "bad"}
        server.wire.on("PATCH", f"/apis/example.com/v1/namespaces/ns/things/{name}/status", LostAfter())
        with pytest.raises(ConnectionLost):
            await server.report(thing)
    assert [key.name for _, key in server.client.status._in_doubt] == ["b", "c"]


# A merge patch cannot set a field to null, so the documents contain no null.
SCALARS = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
DOCUMENTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_merge_diff_applied_as_a_merge_patch_yields_the_desired_document(
    before: dict[str, Any], after: dict[str, Any]
):
    assert merge_patch(before, merge_diff(before, after)) == after
    assert merge_diff(after, copy.deepcopy(after)) == {}


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": []}, {"a": []}),
    ],
)
def test_merge_diff_contains_only_changed_fields(
    before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
):
    assert merge_diff(before, after) == patch


@pytest.mark.parametrize(
    ("wire", "folded"),
    [
        ({"stringData": {"a": "1"}}, {"data": {"a": "MQ=="}}),
        (
            {"stringData": {"a": "1"}, "data": {"a": "Mg==", "b": "Mw=="}},
            {"data": {"a": "MQ==", "b": "Mw=="}},
        ),
        ({"stringData": {"a": "ä"}, "data": None}, {"data": {"a": "w6Q="}}),
        ({"stringData": {"a": 1}}, {"stringData": {"a": 1}}),
        ({"data": {"a": "MQ=="}}, {"data": {"a": "MQ=="}}),
    ],
)
def test_fold_string_data_merges_only_strings_into_data(wire: dict[str, Any], folded: dict[str, Any]):
    assert fold_string_data(wire) == folded
