"""Promises of the store beyond the random interleavings of `test_store_converges`."""

from __future__ import annotations

import pytest

from manager.api import ObjectKey
from manager.cache.record import Record
from manager.cache.spec import Selector
from manager.cache.store import Store
from tests.unit.cache.objects import pod, record, summaries, taken

A = ObjectKey("ns", "a")


@pytest.fixture
def store() -> Store:
    return Store()


def listed(*records: Record) -> dict[ObjectKey, Record]:
    return {each.key: each for each in records}


class TestStoreWatchEvents:
    def test_store_counts_its_objects(self, store: Store):
        store.put(record("a", 1))
        store.put(record("b", 2, labels={"long": "x" * 50}))
        store.put(record("b", 3))
        assert store.bytes == sum(len(each.raw) for each in store) == 2 * len(record("a", 1).raw)
        store.remove(record("a", 4))
        assert store.bytes == len(record("b", 3).raw)

    def test_store_reuses_key_and_uid_when_an_object_changes(self, store: Store):
        store.put(record("a", 1))
        first = store.records.get(A)
        store.put(record("a", 2))
        second = store.records.get(A)
        assert first is not None
        assert second is not None
        assert second.key is first.key
        assert second.uid is first.uid


class TestStoreObserveDeletion:
    def test_store_remembers_own_deletions_of_a_limited_number_of_objects(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("manager.cache.store.FLOORS", 3)
        for name in "abcdefg":
            store.observe_deletion(ObjectKey("ns", name), f"{name}-1")
        assert [name for name in "abcdefg" if store.put(record(name, 20))] == ["a", "b", "c", "d"]
        assert {key.name for key, _ in store.doubted("")} == {"e", "f", "g"}
        store.observe_deletion(ObjectKey("ns", "h"), "h-1")
        assert {key.name for key, _ in store.doubted("")} == {"f", "g"}

    def test_own_deletion_is_remembered_after_events_of_an_earlier_object_with_the_same_name(
        self, store: Store
    ):
        store.observe_write(*taken(pod("a", 3, uid="second")))
        store.observe_deletion(A, "second")
        assert summaries(store.put(record("a", 1, uid="first"))) == []
        assert summaries(store.remove(record("a", 2, uid="first"))) == []
        assert summaries(store.put(record("a", 3, uid="second"))) == []

    def test_own_deletion_is_in_doubt_from_a_later_event_until_the_deletion_event(self, store: Store):
        store.observe_deletion(A, "a-1", 5)
        assert store.doubted("") == set()
        store.put(record("a", 9))
        assert store.doubted("") == store.doubted("ns") == {(A, "a-1")}
        assert store.doubted("another") == set()
        store.remove(record("a", 10))
        assert store.doubted("") == set()
        assert store._floors == {}


class TestStoreList:
    def test_list_yields_additions_changes_and_deletions(self, store: Store):
        for name in ("gone", "same", "changed", "replaced"):
            store.put(record(name, 1, uid=f"{name}-1"))
        now = listed(
            record("same", 1), record("changed", 5), record("replaced", 6, uid="replaced-2"), record("new", 7)
        )
        assert summaries(store.replace("", now, 8)) == [
            "DELETED ns/gone@1",
            "MODIFIED ns/changed@5",
            "DELETED ns/replaced@1",
            "ADDED ns/replaced@6",
            "ADDED ns/new@7",
        ]
        assert store.progress("") == 8

    def test_list_of_one_namespace_changes_no_other(self, store: Store):
        store.put(record("a", 1, namespace="one"))
        store.put(record("a", 2, namespace="two"))
        assert summaries(store.replace("one", {}, 5)) == ["DELETED one/a@1"]
        assert (store.progress("one"), store.progress("two")) == (5, 0)

    def test_list_of_a_restored_server_replaces_newer_objects(self, store: Store):
        store.put(record("changed-back", 50))
        store.put(record("came-later", 60))
        store.put(record("deleted-later", 3))
        store.observe_deletion(ObjectKey("ns", "deleted-later"), "deleted-later-1")
        store.advance("", 60)
        now = listed(record("changed-back", 10), record("deleted-later", 3))
        assert summaries(store.replace("", now, 40)) == [
            "DELETED ns/came-later@60",
            "MODIFIED ns/changed-back@10",
            "ADDED ns/deleted-later@3",
        ]

    def test_list_replaces_an_own_write_when_the_list_version_is_not_older(self, store: Store):
        """Check an own write that a restore reverted without a watch event."""
        store.put(record("a", 10))
        store.advance("", 20)
        store.observe_write(*taken(pod("a", 30)))
        assert summaries(store.replace("", listed(record("a", 10)), 25)) == []
        assert summaries(store.replace("", listed(record("a", 10)), 30)) == ["MODIFIED ns/a@10"]

    def test_list_replaces_an_incomplete_list_of_a_later_version(self, store: Store):
        """Restore the server from a backup before the first list is complete."""
        store.put(record("a", 50), initial=True)
        store.put(record("b", 60), initial=True)
        events = store.replace("", listed(record("a", 10)), 40, restored=True, initial=True)
        assert summaries(events) == ["DELETED ns/b@60", "MODIFIED ns/a@10"]


class TestStoreLabelSelector:
    @pytest.fixture
    def store(self) -> Store:
        return Store(selector=Selector.parse("app=web"))

    @pytest.mark.parametrize("late", ["write answer", "leaving event"])
    def test_store_with_selector_remembers_a_deletion_after_a_late_change(self, store: Store, late: str):
        store.observe_deletion(A, "a-1")
        if late == "write answer":
            store.observe_write(*taken(pod("a", 2)))
        else:
            store.remove(record("a", 2))
        assert summaries(store.put(record("a", 3, labels={"app": "web"}))) == []
