"""Behaviour of the store that the random tests of `test_store_converges` do not cover."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import ObjectKey
from manager.cache.record import Meta, Record
from manager.cache.spec import Selector
from manager.cache.store import Store, index_by
from tests.unit.cache.objects import pod, record, summaries, taken

A = ObjectKey("ns", "a")


@pytest.fixture
def store() -> Store:
    return Store()


def listed(*records: Record) -> dict[ObjectKey, Record]:
    return {each.key: each for each in records}


def test_store_reuses_the_key_and_uid_strings_when_an_object_changes(store: Store):
    store.put(record("a", 1))
    first = store.records.get(A)
    store.put(record("a", 2))
    second = store.records.get(A)
    assert second.key is first.key
    assert second.uid is first.uid


class TestStoreObserveDeletion:
    def test_store_forgets_the_oldest_deletions_beyond_its_limit(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("manager.cache.store.FLOORS", 3)
        for name in "abcdefg":
            store.observe_deletion(ObjectKey("ns", name), f"{name}-1")
        assert [name for name in "abcdefg" if store.put(record(name, 20))] == ["a", "b", "c", "d"]
        assert {key.name for key, _ in store.doubted("")} == {"e", "f", "g"}
        store.observe_deletion(ObjectKey("ns", "h"), "h-1")
        assert {key.name for key, _ in store.doubted("")} == {"f", "g"}

    def test_store_remembers_a_deletion_when_events_of_older_objects_of_that_name_arrive(self, store: Store):
        store.observe_write(*taken(pod("a", 3, uid="second")))
        store.observe_deletion(A, "second")
        assert summaries(store.put(record("a", 1, uid="first"))) == []
        assert summaries(store.remove(record("a", 2, uid="first"))) == []
        assert summaries(store.put(record("a", 3, uid="second"))) == []

    def test_store_reports_a_deletion_as_doubtful_when_a_newer_change_event_arrives(self, store: Store):
        store.observe_deletion(A, "a-1", 5)
        assert store.doubted("") == set()
        store.put(record("a", 9))
        assert store.doubted("") == store.doubted("ns") == {(A, "a-1")}
        assert store.doubted("another") == set()
        store.remove(record("a", 10))
        assert store.doubted("") == set()
        assert store._floors == {}


class TestStoreList:
    def test_store_replace_returns_events_for_additions_changes_and_deletions(self, store: Store):
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

    def test_store_replace_of_one_namespace_changes_no_other_namespace(self, store: Store):
        store.put(record("a", 1, namespace="one"))
        store.put(record("a", 2, namespace="two"))
        assert summaries(store.replace("one", {}, 5)) == ["DELETED one/a@1"]
        assert (store.progress("one"), store.progress("two")) == (5, 0)

    def test_store_replace_accepts_older_objects_when_the_list_version_is_below_the_watch_version(
        self, store: Store
    ):
        """Restore the server from a backup: it lists at a version that the watch has already passed."""
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

    def test_store_replace_undoes_an_observed_write_unless_it_is_newer_than_the_list(self, store: Store):
        """Simulate a server restored from a backup without the write; it sends no watch event."""
        store.put(record("a", 10))
        store.advance("", 20)
        store.observe_write(*taken(pod("a", 30)))
        assert summaries(store.replace("", listed(record("a", 10)), 25)) == []
        assert summaries(store.replace("", listed(record("a", 10)), 30)) == ["MODIFIED ns/a@10"]

    def test_store_replace_overwrites_objects_of_an_unfinished_first_list_when_the_server_was_restored(
        self, store: Store
    ):
        """Restore the server from a backup before the first list is complete."""
        store.put(record("a", 50), initial=True)
        store.put(record("b", 60), initial=True)
        events = store.replace("", listed(record("a", 10)), 40, restored=True, initial=True)
        assert summaries(events) == ["DELETED ns/b@60", "MODIFIED ns/a@10"]


@pytest.mark.parametrize("late", ["write answer", "leaving event"])
def test_store_with_selector_remembers_a_deletion_when_old_changes_arrive(late: str):
    store = Store(selector=Selector.parse("app=web"))
    store.observe_deletion(A, "a-1")
    if late == "write answer":
        store.observe_write(*taken(pod("a", 2)))
    else:
        store.remove(record("a", 2))
    assert summaries(store.put(record("a", 3, labels={"app": "web"}))) == []


def words(_: Record, meta: Meta) -> Iterable[str]:
    return meta.annotations.get("words", "").split()


def test_store_select_omits_and_reports_an_object_whose_index_function_failed():
    fails = False

    def moody(record: Record, meta: Meta) -> Iterable[str]:
        if fails:
            raise RuntimeError("no")
        return ("x",)

    failures: list[tuple[str, ObjectKey, str]] = []
    store = Store(index_failed=lambda index, key, error: failures.append((index, key, str(error))))
    store.indexes.add("moody", moody)
    store.put(*taken(pod("a", 1)))
    fails = True
    store.put(*taken(pod("b", 2)))
    assert [record.key.name for record in store.select(index=("moody", "x"))] == ["a"]
    assert failures == [("moody", ("ns", "b"), "no")]
    store.observe_deletion(ObjectKey("ns", "a"), "a-1")
    assert store.select(index=("moody", "x")) == []


def test_add_index_covers_existing_objects_and_accepts_the_same_path_twice(store: Store):
    with pytest.raises(KeyError, match="no index 'node'"):
        store.select(index=("node", "n1"))
    store.put(*taken(pod("a", 1)))
    store.indexes.add("node", index_by("spec.nodeName"))
    store.indexes.add("node", index_by("spec.nodeName"))
    with pytest.raises(ValueError, match="already has the index name 'node'"):
        store.indexes.add("node", index_by("spec.hostName"))
    store.put(*taken(pod("b", 2)))
    assert [record.key.name for record in store.select(index=("node", "n1"))] == ["a", "b"]


def test_custom_index_can_have_the_name_of_a_built_in_index(store: Store):
    store.indexes.add("namespace", words)
    store.put(*taken(pod("a", 1, annotations={"words": "x"})))
    assert len(store.select(namespace="ns", index=("namespace", "x"))) == 1


def test_repeated_select_by_labels_uses_indexes_and_decodes_no_object(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    for number in range(100):
        labels = {"app": f"app{number % 10}", "n": str(number)}
        store.put(*taken(pod(f"p{number}", number + 1, labels=labels)))
    selector = {"app": "app3", "n": "13"}
    store.select(namespace="ns", labels=selector)

    monkeypatch.delattr(Record, "meta")
    assert [record.key.name for record in store.select(namespace="ns", labels=selector)] == ["p13"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("spec.nodeName", ["n1"]),
        ("metadata.name", ["a"]),
        ("spec.replicas", ["3"]),
        ("spec.hostNetwork", ["false"]),
        ("spec.volumes[*].secret.secretName", ["s1", "s2"]),
        ("spec.hosts[*]", ["x", "y"]),
        (r"metadata.annotations.example\.com/site", ["blog"]),
        ("spec.empty", []),
        ("spec.null", []),
        ("spec.null.deeper", []),
        ("spec.null[*]", []),
        ("spec.missing.deeper", []),
        # Objects whose structure does not fit the path.
        ("spec.nodeName.deeper", []),
        ("spec.nodeName[*]", []),
        ("spec.hosts", []),
        ("spec", []),
    ],
)
def test_index_by_yields_the_values_at_its_path(path: str, found: list[str]):
    volumes = [{"secret": {"secretName": "s1"}}, {"emptyDir": {}}, {"secret": {"secretName": "s2"}}]
    spec = {"nodeName": "n1", "replicas": 3, "hostNetwork": False, "empty": "", "null": None}
    spec |= {"hosts": ["x", "y"], "volumes": volumes}
    value = pod("a", 1, spec=spec, annotations={"example.com/site": "blog"})
    assert list(index_by(path)(*taken(value))) == found


@pytest.mark.parametrize("path", ["", ".", ".spec", "spec.", "spec..name", "spec[0].name", "spec[*", "a\\"])
def test_index_by_refuses_a_string_that_is_not_a_path(path: str):
    with pytest.raises(ValueError, match="not a path"):
        index_by(path)


names = st.sampled_from("abcdef")
namespaces = st.sampled_from(["one", "two"])
labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]))
owners = st.lists(st.sampled_from(["u1", "u2"]), unique=True)
puts = st.fixed_dictionaries(
    {
        "name": names,
        "namespace": namespaces,
        "labels": labels,
        "ownerReferences": owners.map(
            lambda uids: [{"uid": uid, "kind": "Owner", "name": uid} for uid in uids]
        ),
        "annotations": st.lists(st.sampled_from("pqr")).map(lambda found: {"words": " ".join(found)}),
    }
)
removals = st.fixed_dictionaries({"name": names, "namespace": namespaces})


@given(
    steps=st.lists(puts | removals, max_size=30),
    build_at=st.integers(0, 5),
    namespace=st.sampled_from([None, ""]) | namespaces,
    owner_uid=st.none() | st.sampled_from(["u1", "u2", "u3"]),
    word=st.none() | st.sampled_from("pqrs"),
    selector=labels,
)
def test_select_result_equals_a_scan_of_all_objects(
    steps: list[dict[str, Any]],
    build_at: int,
    namespace: str | None,
    owner_uid: str | None,
    word: str | None,
    selector: dict[str, str],
):
    store = Store()
    store.indexes.add("words", words)
    index = None if word is None else ("words", word)

    def select() -> list[Record]:
        return store.select(namespace=namespace, labels=selector, owner_uid=owner_uid, index=index)

    for number, step in enumerate(steps, start=1):
        if number == build_at:
            select()
        if "labels" in step:
            store.put(*taken(pod(version=number, **step)))
        else:
            store.remove(taken(pod(version=number, **step))[0])
    wanted = sorted(
        record.key
        for record in store
        if (not namespace or record.key.namespace == namespace)
        and record.meta().labels.items() >= selector.items()
        and (owner_uid is None or owner_uid in {owner.uid for owner in record.meta().owner_references})
        and (word is None or word in words(record, record.meta()))
    )
    assert [record.key for record in select()] == wanted
    assert store.bytes == sum(len(record.raw) for record in store)
