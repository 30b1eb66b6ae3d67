from __future__ import annotations

import pytest

from manager.cache import CacheEvent
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
    status_emptied,
    termination_started,
)
from tests.unit.controller.objects import Change, added, changed, removed

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
        (status_emptied, set()),
        (not_(label_changed), set(EVENTS) - {"labels", "added", "removed"}),
        (any_of(label_changed, generation_changed), {"labels", "spec", "added", "removed", "replaced"}),
        (all_of(label_changed, generation_changed), {"added", "removed"}),
        (any_of(), set()),
        (all_of(), set(EVENTS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_each_predicate_lets_pass(predicate: Predicate, passing: set[str]):
    assert {name for name, event in EVENTS.items() if predicate(event)} == passing


def test_the_end_of_a_termination_changes_no_presence():
    assert not presence_changed(removed(deletionTimestamp=NOW))
    assert not presence_changed(added(deletionTimestamp=NOW))


def test_a_kind_without_generations_passes_whatever_changes():
    assert generation_changed(Change(generation=0).to())


def test_the_same_version_again_is_no_change():
    event = changed()
    assert not resource_version_changed(CacheEvent(event.new, event.new))


def test_a_finalizer_removed_during_termination_is_a_change_of_what_is_wanted():
    event = Change(deletionTimestamp=NOW, finalizers=["a", "b"]).to(finalizers=["b"])
    assert desired_state_changed(event)
    assert not created_or_deleted(event)
