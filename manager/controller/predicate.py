"""Predicates, which select the events that cause reconciles.

A predicate is any callable that takes a `CacheEvent` and returns whether it is worth a reconcile. Those named
`…_changed` judge changes only, and let creations and deletions pass. They compare the object before and after
the event, so an event that combines several changes is judged by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from manager.cache import CacheEvent, Meta, Record

Predicate: TypeAlias = Callable[[CacheEvent], bool]


def created(event: CacheEvent) -> bool:
    """Return whether the object is new, to the cluster or to this process."""
    return event.old is None or _is_replaced(event)


def deleted(event: CacheEvent) -> bool:
    """Return whether the object is gone."""
    return event.new is None or _is_replaced(event)


def termination_started(event: CacheEvent) -> bool:
    """Return whether the object's deletion begins; the object stays until its finalizers are gone."""
    return event.old is not None and event.new is not None and event.new.deleting > event.old.deleting


def created_or_deleted(event: CacheEvent) -> bool:
    """Return whether the object is new, gone, or begins its deletion."""
    return event.old is None or event.new is None or _is_replaced(event) or termination_started(event)


def presence_changed(event: CacheEvent) -> bool:
    """Return whether the object is new or gone; an object counts as gone when its deletion begins."""
    return _is_present(event.old) is not _is_present(event.new) or _is_replaced(event)


def generation_changed(event: CacheEvent) -> bool:
    """Return whether the spec has changed; any change counts for a kind without generations."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return new.generation != old.generation or new.generation == 0 or _is_replaced(event)


def resource_version_changed(event: CacheEvent) -> bool:
    """Anything has changed."""
    return event.old is None or event.new is None or event.new.version != event.old.version


def label_changed(event: CacheEvent) -> bool:
    """Return whether the labels have changed."""
    return _differs(event, lambda meta: meta.labels)


def annotation_changed(event: CacheEvent) -> bool:
    """Return whether the annotations have changed."""
    return _differs(event, lambda meta: meta.annotations)


def finalizer_changed(event: CacheEvent) -> bool:
    """Return whether the finalizers have changed."""
    return _differs(event, lambda meta: meta.finalizers)


def desired_state_changed(event: CacheEvent) -> bool:
    """Return whether the spec, labels, annotations or finalizers changed, or the object is being deleted.

    Status changes do not pass, whichever client wrote them. An operator's default predicate also passes
    status changes by other clients: `any_of(desired_state_changed, status_changed)`.
    """
    return (
        generation_changed(event)
        or termination_started(event)
        or _differs(event, lambda meta: (meta.labels, meta.annotations, meta.finalizers))
    )


def status_changed(event: CacheEvent) -> bool:
    """Return whether the status has changed.

    For an operator's own kind, changes do not pass while the operator reconciles the object: they may be its
    own. The end of that reconcile compares the status.
    """
    old, new = event.old, event.new
    if event.reconciling:
        return False
    return old is not None and new is not None and _decode(old.raw).status != _decode(new.raw).status


def any_of(*predicates: Predicate) -> Predicate:
    """Make a predicate that passes an event if at least one of `predicates` does."""

    def passes(event: CacheEvent) -> bool:
        for predicate in predicates:  # noqa: SIM110 - a generator costs more than most predicates
            if predicate(event):
                return True
        return False

    return _made_of(passes, predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """Make a predicate that passes an event if all of `predicates` do."""
    return _made_of(lambda event: all(predicate(event) for predicate in predicates), predicates)


def not_(predicate: Predicate) -> Predicate:
    """Make a predicate that passes an event if `predicate` does not."""
    return _made_of(lambda event: not predicate(event), (predicate,))


def compares_status(predicate: Predicate) -> bool:
    """Return whether it is `status_changed`, or made of it."""
    return predicate is status_changed or any(map(compares_status, getattr(predicate, _PARTS, ())))


_PARTS = "parts"


def _made_of(made: Predicate, predicates: Sequence[Predicate]) -> Predicate:
    setattr(made, _PARTS, predicates)
    return made


class _Object(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Object).decode


def _is_present(record: Record | None) -> bool:
    return record is not None and not record.deleting


def _is_replaced(event: CacheEvent) -> bool:
    """Return whether another object of the same name has replaced the old one between two events."""
    return event.old is not None and event.new is not None and event.new.uid != event.old.uid


def _differs(event: CacheEvent, part: Callable[[Meta], object]) -> bool:
    before = event.old_meta
    if before is None or event.new is None:
        return True
    return part(event.meta) != part(before)
