from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from manager.cache import CacheEvent, Meta, Record
from manager.controller.predicate import (
    Predicate,
    all_of,
    annotation_changed,
    any_of,
    created,
    created_or_deleted,
    deleted,
    desired_state_changed,
    finalizer_changed,
    generation_changed,
    label_changed,
    not_,
    presence_changed,
    resource_version_changed,
    status_changed,
    termination_started,
)
from manager.controller.reconciler import Request
from manager.controller.source import Handler, enqueue_mapped, enqueue_object, enqueue_owner
from tests.unit.controller.objects import Change, Cluster, Foo, added, changed, owner, removed

NOW = "2026-11-21T10:00:00Z"
STATUS = changed()
SPEC = changed(generation=2)
LABELS = changed(labels={"a": "b"})
ANNOTATIONS = changed(annotations={"a": "b"})
FINALIZERS = changed(finalizers=["x"])
TERMINATING = changed(deletionTimestamp=NOW)
STILL_TERMINATING = Change(deletionTimestamp=NOW).to(finalizers=[])
REPLACED = changed(uid="another")
ADDED = added()
REMOVED = removed()
EVENTS = {
    "status": STATUS,
    "spec": SPEC,
    "labels": LABELS,
    "annotations": ANNOTATIONS,
    "finalizers": FINALIZERS,
    "terminating": TERMINATING,
    "still terminating": STILL_TERMINATING,
    "replaced": REPLACED,
    "added": ADDED,
    "removed": REMOVED,
}


@pytest.mark.parametrize(
    ("predicate", "passing"),
    [
        (created, {"added", "replaced"}),
        (deleted, {"removed", "replaced"}),
        (created_or_deleted, {"added", "removed", "replaced", "terminating"}),
        (termination_started, {"terminating"}),
        (presence_changed, {"added", "removed", "replaced", "terminating"}),
        (generation_changed, {"spec", "added", "removed", "replaced"}),
        (label_changed, {"labels", "added", "removed"}),
        (annotation_changed, {"annotations", "added", "removed"}),
        (finalizer_changed, {"finalizers", "added", "removed"}),
        (resource_version_changed, set(EVENTS)),
        (desired_state_changed, set(EVENTS) - {"status", "still terminating"}),
        (not_(label_changed), set(EVENTS) - {"labels", "added", "removed"}),
        (any_of(label_changed, generation_changed), {"labels", "spec", "added", "removed", "replaced"}),
        (all_of(label_changed, generation_changed), {"added", "removed"}),
        (any_of(), set()),
        (all_of(), set(EVENTS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_predicate_passes_exactly_its_events(predicate: Predicate, passing: set[str]):
    assert {name for name, event in EVENTS.items() if predicate(event)} == passing


def test_status_changed_compares_the_status_alone():
    def told(record: Record, status: bytes) -> Record:
        return msgspec.structs.replace(record, raw=record.raw[:-1] + b',"status":%b}' % status)

    assert STATUS.old is not None
    assert STATUS.new is not None
    events = [(b'{"a":1}', b'{"a":1}'), (b'{"a":1}', b'{"a":2}'), (b'{"a":1}', b"{}")]
    passing = [status_changed(CacheEvent(told(STATUS.old, a), told(STATUS.new, b))) for a, b in events]
    assert passing == [False, True, True]
    assert status_changed(CacheEvent(told(STATUS.old, b"{}"), STATUS.new))
    assert not any(map(status_changed, EVENTS.values()))


def test_presence_changed_rejects_events_of_a_deleting_object():
    assert not presence_changed(removed(deletionTimestamp=NOW))
    assert not presence_changed(added(deletionTimestamp=NOW))


def test_generation_changed_passes_events_of_a_kind_without_generations():
    assert generation_changed(Change(generation=0).to())


def test_resource_version_changed_rejects_an_unchanged_version():
    event = changed()
    assert not resource_version_changed(CacheEvent(event.new, event.new))


def test_desired_state_changed_passes_a_removed_finalizer_during_termination():
    event = Change(deletionTimestamp=NOW, finalizers=["a", "b"]).to(finalizers=["b"])
    assert desired_state_changed(event)
    assert not created_or_deleted(event)


def names(handler: Handler, event: CacheEvent) -> list[str]:
    return [str(request) for request in handler(event)]


def by_label(pod: Meta) -> Iterable[Request]:
    name = pod.labels.get("foo")
    return [Request(pod.namespace, name)] if name else []


def test_enqueue_object_enqueues_the_object_itself():
    assert names(enqueue_object, added(name="a")) == ["ns/a"]
    assert names(enqueue_object, changed()) == ["ns/a"]
    assert names(enqueue_object, removed(name="b", namespace="")) == ["b"]


def test_enqueue_owner_enqueues_the_controlling_owner():
    handler = enqueue_owner(Foo)
    assert names(handler, added(ownerReferences=[owner("foo-1")])) == ["ns/foo-1"]
    assert names(handler, removed(ownerReferences=[owner("foo-1")])) == ["ns/foo-1"]


def test_enqueue_owner_ignores_owners_of_another_kind_or_without_control():
    handler = enqueue_owner(Foo)
    references = [
        owner(controller=False),
        owner(kind="Bar"),
        owner(group="other.domain/"),
        owner(group=""),
    ]
    for reference in references:
        assert names(handler, added(ownerReferences=[reference])) == []
    assert names(handler, added()) == []


def test_enqueue_owner_ignores_the_version_of_the_owner_reference():
    reference = {**owner("foo-1"), "apiVersion": "tutorial.my.domain/v1alpha1"}
    assert names(enqueue_owner(Foo), added(ownerReferences=[reference])) == ["ns/foo-1"]


def test_enqueue_owner_enqueues_a_cluster_scoped_owner_without_namespace():
    reference = owner("prod", kind="Cluster", group="example.com/")
    assert names(enqueue_owner(Cluster), added(ownerReferences=[reference])) == ["prod"]


def test_enqueue_owner_enqueues_old_and_new_owner_when_the_owner_changes():
    handler = enqueue_owner(Foo)
    event = Change(ownerReferences=[owner("old")]).to(ownerReferences=[owner("new")])
    assert names(handler, event) == ["ns/new", "ns/old"]
    assert names(handler, Change(ownerReferences=[owner("old")]).to(ownerReferences=[])) == ["ns/old"]


def test_enqueue_owner_enqueues_an_unchanged_owner_once():
    event = Change(ownerReferences=[owner("foo-1")]).to(labels={"a": "b"})
    assert names(enqueue_owner(Foo), event) == ["ns/foo-1"]


def test_enqueue_mapped_maps_the_metadata_before_and_after_a_change():
    handler = enqueue_mapped(by_label)
    assert names(handler, added(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, removed(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(labels={"foo": "y"})) == ["ns/y", "ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(generation=2)) == ["ns/x"]
    assert names(handler, Change(labels={"foo": "x"}).to(labels={})) == ["ns/x"]
    assert names(handler, added()) == []


def test_enqueue_mapped_accepts_a_generator_with_repeated_keys():
    def twice(meta: Meta) -> Iterable[Request]:
        yield Request("ns", "x")
        yield Request("ns", "x")

    assert names(enqueue_mapped(twice), changed(labels={"a": "b"})) == ["ns/x"]
