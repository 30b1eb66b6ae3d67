"""State of the store after random orders of writes, watch events, lists and late responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from manager.api import ObjectKey
from manager.cache.record import CacheEvent, Meta, Record, RecordDecoder
from manager.cache.sink import Sink
from manager.cache.spec import Selector
from manager.cache.store import Store
from tests.unit.cache.objects import Pod

NAMES = "abc"
SELECTED = {"app": "web"}


@dataclass(frozen=True)
class Change:
    """A change on the server: the object before and after it; None for a missing object."""

    version: int
    name: str
    before: Meta | None
    after: Meta | None


@dataclass
class Server:
    version: int = 0
    live: dict[str, Meta] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)

    def put(self, name: str, *, selected: bool) -> Change:
        before = self.live.get(name)
        self.version += 1
        version, uid = str(self.version), before.uid if before else f"{name}-{self.version}"
        labels = SELECTED if selected else {}
        after = Meta(name=name, namespace="ns", uid=uid, resource_version=version, labels=labels)
        self.live[name] = after
        self.log.append(Change(self.version, name, before, after))
        return self.log[-1]

    def delete(self, name: str) -> Change:
        self.version += 1
        self.log.append(Change(self.version, name, self.live.pop(name), None))
        return self.log[-1]


@dataclass
class Listing:
    """Response to a list request at a version, with the items that the store has not received yet."""

    version: int
    items: list[Meta]


_decoder = RecordDecoder(Pod.gvk, field_manager="m", metadata_only=True)


def encoded(meta: Meta, **changes: Any) -> msgspec.Raw:
    """Return the JSON of a pod with this metadata; `changes` replace fields of the metadata."""
    metadata = msgspec.structs.replace(meta, **changes)
    return msgspec.Raw(msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}))


class Following(RuleBasedStateMachine):
    """State machine of a server, and of a store that has no selector and receives the server's events."""

    selector: ClassVar[str] = ""
    filtered: ClassVar[bool] = False
    sees_own_writes: ClassVar[bool] = True

    @initialize()
    def start(self) -> None:
        self.server = Server()
        self.store = Store(selector=Selector.parse(self.selector), filtered=self.filtered)
        self.view: dict[ObjectKey, Record] = {}
        self.last_version: dict[str, int] = {}
        self.sink = Sink(self.store, _decoder, "", publish=self.publish)
        self.answers: list[Change] = []
        self.seen: dict[str, int] = {}
        self.listing: Listing | None = None
        self.position: int | None = None

    def selects(self, meta: Meta | None) -> bool:
        return meta is not None and (meta.labels == SELECTED or not (self.selector or self.filtered))

    # The objects of all events must equal the contents of the store.

    def publish(self, events: Sequence[CacheEvent]) -> None:
        for event in events:
            held = self.view.pop(event.key, None)
            assert event.old is held
            if event.new is None:
                continue
            self.view[event.key] = event.new
            assert held is None or held.uid == event.new.uid
            oldest = self.last_version.get(event.new.uid, 0) + (not self.filtered)
            assert event.new.version >= oldest, "an event delivers an old state"
            self.last_version[event.new.uid] = event.new.version

    @invariant()
    def delivered_events_equal_the_store(self) -> None:
        assert self.view == {record.key: record for record in self.store}

    @invariant()
    def store_is_never_older_than_our_last_write(self) -> None:
        if not self.sees_own_writes:
            return
        for name, version in self.seen.items():
            held = self.store.records.get(ObjectKey("ns", name))
            if held is not None:
                assert held.version >= version
            else:
                states = [
                    change.after
                    for change in self.server.log
                    if change.name == name and change.version >= version
                ]
                assert any(not self.selects(state) for state in states), f"{name} is missing"

    # Changes on the server.

    @rule(name=st.sampled_from(NAMES), selected=st.booleans())
    def another_client_writes(self, name: str, selected: bool) -> None:
        self.server.put(name, selected=selected)

    @rule(name=st.sampled_from(NAMES))
    def another_client_deletes(self, name: str) -> None:
        if name in self.server.live:
            self.server.delete(name)

    @rule(name=st.sampled_from(NAMES), selected=st.booleans())
    def we_write(self, name: str, selected: bool) -> None:
        self.answers.append(self.server.put(name, selected=selected))

    @rule(name=st.sampled_from(NAMES))
    def we_delete(self, name: str) -> None:
        if name in self.server.live:
            self.answers.append(self.server.delete(name))

    # Arrivals of responses and events at the store.

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def a_response_arrives(self, data: st.DataObject) -> None:
        self.take_response(self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1))))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def a_response_is_lost(self, data: st.DataObject) -> None:
        self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))

    def take_response(self, change: Change) -> None:
        if change.after is not None:
            self.publish(self.store.observe_write(*_decoder(encoded(change.after))))
        else:
            # The response does not contain the version of the deletion, so the client knows an earlier one.
            known = int(change.before.resource_version)
            key = ObjectKey("ns", change.name)
            self.publish(self.store.observe_deletion(key, change.before.uid, known))
        self.seen[change.name] = max(change.version, self.seen.get(change.name, 0))

    @precondition(lambda self: self.position is not None)
    @rule(count=st.integers(1, 5))
    def watch_events_arrive(self, count: int) -> None:
        for change in self.server.log[self.position : self.position + count]:
            self.position += 1
            self.watch_event(change)

    def watch_event(self, change: Change) -> None:
        kind, last = self.event_of(change)
        if kind is not None:
            self.sink.event(kind, last)
        if kind == "DELETED":
            self.note_absence(change.before.uid, change.version)

    def note_absence(self, uid: str, version: int) -> None:
        """Record that the object was absent at a version; the store must not deliver earlier states of it."""
        if not self.filtered:
            self.last_version[uid] = max(version, self.last_version.get(uid, 0))

    def event_of(self, change: Change) -> tuple[str | None, msgspec.Raw]:
        """Return a watch event's type and object; the type is None if the selector matches neither state."""
        selected = (self.selects(change.before), self.selects(change.after))
        kinds = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}
        last = change.after or change.before
        return kinds.get(selected), encoded(last, resource_version=str(change.version))

    @precondition(lambda self: self.position == len(self.server.log))
    @rule()
    def a_bookmark_arrives(self) -> None:
        assert self.sink.bookmark(self.server.version)

    @rule()
    def the_server_sends_a_list(self) -> None:
        self.position = None
        items = [meta for meta in self.server.live.values() if self.selects(meta)]
        self.listing = Listing(self.server.version, items)
        self.sink.begin_list()

    @precondition(lambda self: self.listing and self.listing.items)
    @rule()
    def an_item_of_the_list_arrives(self) -> None:
        self.sink.list_item(encoded(self.listing.items.pop()))

    @precondition(lambda self: self.listing and not self.listing.items)
    @rule()
    def a_change_arrives_before_the_end_of_the_list(self) -> None:
        """Deliver the next change as a part of a streaming list, before the list ends."""
        change = next((change for change in self.server.log if change.version > self.listing.version), None)
        if change is None:
            return
        self.listing.version = change.version
        kind, last = self.event_of(change)
        if kind is not None:
            self.sink.list_event(kind, last)

    @precondition(lambda self: self.listing)
    @rule()
    def the_rest_of_the_list_arrives(self) -> None:
        while self.listing.items:
            self.an_item_of_the_list_arrives()
        self.sink.finish_list(self.listing.version)
        held = {record.uid for record in self.store}
        for uid in self.last_version.keys() - held:
            self.note_absence(uid, self.listing.version)
        self.position = next(
            (at for at, change in enumerate(self.server.log) if change.version > self.listing.version),
            len(self.server.log),
        )
        self.listing = None

    @rule(answers_first=st.booleans())
    def everything_arrives(self, answers_first: bool) -> None:
        if answers_first:
            self.all_responses_arrive()
        if self.listing is None and self.position is None:
            self.the_server_sends_a_list()
        if self.listing is not None:
            self.the_rest_of_the_list_arrives()
        self.watch_events_arrive(len(self.server.log))
        self.all_responses_arrive()
        wanted = {
            name: (meta.uid, int(meta.resource_version))
            for name, meta in self.server.live.items()
            if self.selects(meta)
        }
        assert {record.key.name: (record.uid, record.version) for record in self.store} == wanted

    def all_responses_arrive(self) -> None:
        while self.answers:
            self.take_response(self.answers.pop(0))

    def teardown(self) -> None:
        if hasattr(self, "server"):
            self.everything_arrives(answers_first=False)


class FollowingLabels(Following):
    """Store with a label selector; the server sends an event when an object begins or stops to match."""

    selector = "app=web"


class FollowingFields(Following):
    """Store with a field selector, which only the server can evaluate."""

    filtered = True
    sees_own_writes = False


def test_store_omits_an_object_that_no_longer_matches_its_selector_despite_a_late_write_response():
    following = FollowingLabels()
    following.start()
    following.we_write("a", selected=True)
    following.we_write("a", selected=True)
    following.another_client_writes("a", selected=True)
    following.the_server_sends_a_list()
    following.an_item_of_the_list_arrives()
    following.another_client_writes("a", selected=False)
    following.a_change_arrives_before_the_end_of_the_list()
    following.take_response(following.answers[1])
    following.store_is_never_older_than_our_last_write()
    following.everything_arrives(answers_first=True)
    assert not len(following.store)


def test_store_has_every_object_when_the_server_is_restored_from_a_backup_during_the_first_list():
    following = Following()
    following.start()
    for _ in range(9):
        following.another_client_writes("a", selected=True)
    following.another_client_writes("b", selected=True)
    following.the_server_sends_a_list()
    following.listing.items.reverse()
    following.an_item_of_the_list_arrives()
    following.server = Server(version=3)
    following.another_client_writes("a", selected=True)
    following.last_version = {}
    following.the_server_sends_a_list()
    following.everything_arrives(answers_first=True)


TestFollowing = Following.TestCase
TestFollowingLabels = FollowingLabels.TestCase
TestFollowingFields = FollowingFields.TestCase
