from __future__ import annotations

import pytest

from manager.api import ObjectKey
from manager.cache.record import Record
from manager.cache.spec import Selector
from manager.cache.store import Store
from tests.unit.cache.objects import pod, record, taken, told

A = ObjectKey("ns", "a")


@pytest.fixture
def store() -> Store:
    return Store()


def listed(*records: Record) -> dict[ObjectKey, Record]:
    return {each.key: each for each in records}


def version_of(store: Store, key: ObjectKey = A) -> int | None:
    held = store.get(key)
    return held and held.version


class TestAWatch:
    def test_adds_changes_and_removes(self, store: Store):
        assert told(store.put(record("a", 1))) == ["ADDED ns/a@1"]
        (changed,) = store.put(record("a", 2))
        assert told([changed]) == ["MODIFIED ns/a@2"]
        assert changed.old is not None
        assert changed.old.version == 1
        assert told(store.remove(record("a", 3))) == ["DELETED ns/a@2"]
        assert len(store) == 0

    def test_tells_nothing_that_is_known_already(self, store: Store):
        store.put(record("a", 2))
        assert told(store.put(record("a", 2))) == []
        assert told(store.put(record("a", 1))) == []
        assert told(store.remove(record("b", 3))) == []

    def test_may_tell_of_a_deletion_by_the_version_that_the_object_had(self, store: Store):
        store.put(record("a", 2))
        assert told(store.remove(record("a", 2))) == ["DELETED ns/a@2"]

    def test_tells_of_a_replaced_object_as_of_two(self, store: Store):
        store.put(record("a", 1, uid="first"))
        gone, new = store.put(record("a", 5, uid="second"))
        assert told([gone, new]) == ["DELETED ns/a@1", "ADDED ns/a@5"]
        assert gone.record.uid == "first"

    def test_counts_what_is_held(self, store: Store):
        store.put(record("a", 1))
        store.put(record("b", 2, labels={"long": "x" * 50}))
        store.put(record("b", 3))
        assert store.bytes == sum(len(each.raw) for each in store) == 2 * len(record("a", 1).raw)
        store.remove(record("a", 4))
        assert store.bytes == len(record("b", 3).raw)

    def test_keeps_the_names_it_has_when_an_object_changes(self, store: Store):
        store.put(record("a", 1))
        first = store.get(A)
        store.put(record("a", 2))
        second = store.get(A)
        assert first is not None
        assert second is not None
        assert second.key is first.key
        assert second.uid is first.uid


class TestAWrite:
    def test_shows_at_once_and_its_watch_event_is_no_news(self, store: Store):
        assert told(store.observe_write(*taken(pod("a", 5)))) == ["ADDED ns/a@5"]
        assert told(store.put(record("a", 5))) == []
        assert told(store.observe_write(*taken(pod("a", 7)))) == ["MODIFIED ns/a@7"]
        assert told(store.put(record("a", 6))) == []
        assert told(store.put(record("a", 7))) == []

    def test_whose_answer_comes_after_its_event_is_no_news(self, store: Store):
        store.put(record("a", 5))
        store.advance("", 5)
        assert told(store.observe_write(*taken(pod("a", 5)))) == []

    def test_whose_answer_comes_after_the_deletion_does_not_bring_it_back(self, store: Store):
        store.put(record("a", 5))
        store.put(record("a", 6))
        store.remove(record("a", 7))
        store.advance("", 7)
        assert told(store.observe_write(*taken(pod("a", 6)))) == []
        assert len(store) == 0

    def test_is_not_undone_by_an_older_list(self, store: Store):
        store.put(record("a", 1))
        store.observe_write(*taken(pod("a", 9)))
        store.observe_write(*taken(pod("b", 10)))
        assert told(store.replace("", listed(record("a", 1)), 8)) == []
        assert version_of(store) == 9
        assert version_of(store, ObjectKey("ns", "b")) == 10

    def test_is_undone_by_a_newer_list(self, store: Store):
        store.observe_write(*taken(pod("a", 9)))
        assert told(store.replace("", {}, 9)) == ["DELETED ns/a@9"]

    def test_before_the_first_list_shows_too(self, store: Store):
        assert told(store.observe_write(*taken(pod("a", 9)))) == ["ADDED ns/a@9"]

    def test_of_a_new_object_under_an_old_name_replaces_the_old_one(self, store: Store):
        store.put(record("a", 1, uid="old"))
        assert told(store.observe_write(*taken(pod("a", 9, uid="new")))) == ["DELETED ns/a@1", "ADDED ns/a@9"]
        assert told(store.put(record("a", 3, uid="old"))) == []
        assert told(store.remove(record("a", 4, uid="old"))) == []
        assert version_of(store) == 9


class TestADeletionOfOurOwn:
    def test_shows_at_once(self, store: Store):
        store.put(record("a", 1))
        assert told(store.observe_deletion(A, "a-1")) == ["DELETED ns/a@1"]
        assert told(store.remove(record("a", 5))) == []

    def test_is_not_undone_by_late_events(self, store: Store):
        store.put(record("a", 1))
        store.observe_deletion(A, "a-1")
        assert told(store.put(record("a", 2))) == []

    def test_is_not_undone_by_an_older_list(self, store: Store):
        store.put(record("a", 1))
        store.observe_deletion(A, "a-1")
        assert told(store.replace("", listed(record("a", 2)), 2)) == []

    def test_is_not_undone_by_the_late_answer_to_a_write(self, store: Store):
        store.put(record("a", 1))
        store.observe_deletion(A, "a-1")
        assert told(store.observe_write(*taken(pod("a", 2)))) == []

    def test_holds_for_an_object_that_the_watch_has_not_told_of_yet(self, store: Store):
        assert told(store.observe_deletion(A, "a-1")) == []
        assert told(store.put(record("a", 1))) == []

    def test_leaves_another_object_of_that_name_alone(self, store: Store):
        store.put(record("a", 5, uid="new"))
        assert told(store.observe_deletion(A, "old")) == []
        assert version_of(store) == 5

    def test_lets_a_new_object_have_the_name(self, store: Store):
        store.put(record("a", 1, uid="old"))
        store.observe_deletion(A, "old")
        assert told(store.observe_write(*taken(pod("a", 5, uid="new")))) == ["ADDED ns/a@5"]
        assert told(store.remove(record("a", 4, uid="old"))) == []
        assert told(store.put(record("a", 5, uid="new"))) == []
        assert version_of(store) == 5

    def test_is_remembered_for_a_bounded_number_of_objects(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("manager.cache.store.FLOORS", 3)
        for name in "abcdefg":
            store.observe_deletion(ObjectKey("ns", name), f"{name}-1")
        assert [name for name in "abcdefg" if store.put(record(name, 20))] == ["a", "b", "c", "d"]

    def test_is_remembered_past_the_deletion_of_a_namesake_before_it(self, store: Store):
        store.observe_write(*taken(pod("a", 3, uid="second")))
        store.observe_deletion(A, "second")
        assert told(store.put(record("a", 1, uid="first"))) == []
        assert told(store.remove(record("a", 2, uid="first"))) == []
        assert told(store.put(record("a", 3, uid="second"))) == []

    def test_is_forgotten_when_the_watch_tells_of_it(self, store: Store):
        store.observe_deletion(A, "a-1")
        store.remove(record("a", 3))
        assert store._floors == {}


class TestAList:
    def test_brings_what_is_new_changed_and_gone(self, store: Store):
        for name in ("gone", "same", "changed", "replaced"):
            store.put(record(name, 1, uid=f"{name}-1"))
        now = listed(
            record("same", 1), record("changed", 5), record("replaced", 6, uid="replaced-2"), record("new", 7)
        )
        assert told(store.replace("", now, 8)) == [
            "DELETED ns/gone@1",
            "MODIFIED ns/changed@5",
            "DELETED ns/replaced@1",
            "ADDED ns/replaced@6",
            "ADDED ns/new@7",
        ]
        assert store.progress("") == 8

    def test_shows_all_of_it_before_any_of_it_is_told(self, store: Store):
        store.put(record("a", 1))
        events = store.replace("", listed(record("b", 2)), 3)
        assert [each.key.name for each in store] == ["b"]
        assert len(events) == 2

    def test_of_one_namespace_leaves_the_others_alone(self, store: Store):
        store.put(record("a", 1, namespace="one"))
        store.put(record("a", 2, namespace="two"))
        assert told(store.replace("one", {}, 5)) == ["DELETED one/a@1"]
        assert (store.progress("one"), store.progress("two")) == (5, 0)

    def test_after_the_server_was_restored_from_a_backup_is_believed_over_what_is_newer(self, store: Store):
        store.put(record("changed-back", 50))
        store.put(record("came-later", 60))
        store.put(record("deleted-later", 3))
        store.observe_deletion(ObjectKey("ns", "deleted-later"), "deleted-later-1")
        store.advance("", 60)
        now = listed(record("changed-back", 10), record("deleted-later", 3))
        assert told(store.replace("", now, 40)) == [
            "DELETED ns/came-later@60",
            "MODIFIED ns/changed-back@10",
            "ADDED ns/deleted-later@3",
        ]

    def test_is_believed_over_a_state_that_it_would_know_of_had_it_ever_been(self, store: Store):
        """What a write of ours led to before the restore, and no watch ever told."""
        store.put(record("a", 10))
        store.advance("", 20)
        store.observe_write(*taken(pod("a", 30)))
        assert told(store.replace("", listed(record("a", 10)), 25)) == []
        assert told(store.replace("", listed(record("a", 10)), 30)) == ["MODIFIED ns/a@10"]

    def test_is_believed_over_one_of_a_later_version_that_broke_off(self, store: Store):
        """The server was restored from a backup before the first list was complete."""
        store.put(record("a", 50), initial=True)
        store.put(record("b", 60), initial=True)
        events = store.replace("", listed(record("a", 10)), 40, told=60, initial=True)
        assert told(events) == ["DELETED ns/b@60", "MODIFIED ns/a@10"]


class TestALabelSelector:
    @pytest.fixture
    def store(self) -> Store:
        return Store(selector=Selector.parse("app=web"))

    def test_keeps_out_what_we_write_and_it_does_not_match(self, store: Store):
        assert told(store.observe_write(*taken(pod("a", 1)))) == []

    def test_drops_what_a_write_of_ours_takes_out_of_it(self, store: Store):
        store.put(record("a", 1, labels={"app": "web"}))
        assert told(store.observe_write(*taken(pod("a", 5)))) == ["DELETED ns/a@1"]
        assert told(store.put(record("a", 4, labels={"app": "web"}))) == []
        assert told(store.remove(record("a", 5))) == []
        assert told(store.put(record("a", 6, labels={"app": "web"}))) == ["ADDED ns/a@6"]

    def test_takes_back_what_a_write_of_ours_brings_back(self, store: Store):
        store.put(record("a", 1, labels={"app": "web"}))
        store.observe_write(*taken(pod("a", 5)))
        assert told(store.observe_write(*taken(pod("a", 6, labels={"app": "web"})))) == ["ADDED ns/a@6"]
        assert told(store.remove(record("a", 5))) == []
        assert version_of(store) == 6

    def test_ignores_a_late_answer_of_a_write_that_left_it(self, store: Store):
        store.put(record("a", 6, labels={"app": "web"}))
        assert told(store.observe_write(*taken(pod("a", 5)))) == []
        assert version_of(store) == 6

    def test_remembers_a_deletion_past_the_late_answer_of_a_write_that_left_it(self, store: Store):
        store.observe_deletion(A, "a-1")
        store.observe_write(*taken(pod("a", 2)))
        assert told(store.put(record("a", 3, labels={"app": "web"}))) == []

    def test_remembers_a_deletion_past_an_event_of_leaving(self, store: Store):
        store.observe_deletion(A, "a-1")
        store.remove(record("a", 2))
        assert told(store.put(record("a", 3, labels={"app": "web"}))) == []


class TestAFieldSelector:
    @pytest.fixture
    def store(self) -> Store:
        return Store(filtered=True)

    def test_leaves_it_to_the_watch_to_add_objects(self, store: Store):
        assert told(store.observe_write(*taken(pod("a", 1)))) == []
        assert told(store.put(record("a", 1))) == ["ADDED ns/a@1"]
        assert told(store.observe_write(*taken(pod("a", 2)))) == ["MODIFIED ns/a@2"]

    def test_leaves_it_to_the_watch_to_replace_objects(self, store: Store):
        store.put(record("a", 1, uid="old"))
        assert told(store.observe_write(*taken(pod("a", 5, uid="new")))) == []

    def test_drops_what_left_the_selection_before_our_last_write(self, store: Store):
        store.put(record("a", 1))
        store.observe_write(*taken(pod("a", 5)))
        assert told(store.remove(record("a", 3))) == ["DELETED ns/a@5"]
        assert told(store.put(record("a", 4))) == []
        assert told(store.put(record("a", 5))) == ["ADDED ns/a@5"]

    def test_keeps_what_has_the_name_of_an_object_that_left(self, store: Store):
        store.put(record("a", 5, uid="new"))
        assert told(store.remove(record("a", 3, uid="old"))) == []
