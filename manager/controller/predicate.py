"""Which events matter.

A predicate is any callable that takes a `CacheEvent` and says whether it is worth a reconcile. Those here
named `…_changed` judge changes only: what is created or deleted passes. They compare what the cache held
before with what it holds now, so an event that tells of several changes at once is judged by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from manager.cache import CacheEvent, Meta, Record

Predicate: TypeAlias = Callable[[CacheEvent], bool]


def created(event: CacheEvent) -> bool:
    """The object is new, to the cluster or to this process."""
    return event.old is None or _is_replaced(event)


def deleted(event: CacheEvent) -> bool:
    """The object is gone."""
    return event.new is None or _is_replaced(event)


def termination_started(event: CacheEvent) -> bool:
    """The object is being deleted now, and was not before; it stays until its finalizers are gone."""
    return event.old is not None and event.new is not None and event.new.deleting > event.old.deleting


def created_or_deleted(event: CacheEvent) -> bool:
    """The object appears, goes, or begins to go."""
    return event.old is None or event.new is None or _is_replaced(event) or termination_started(event)


def presence_changed(event: CacheEvent) -> bool:
    """The object appears, or goes; of one that is terminated the beginning counts, and its end is no news."""
    return _is_present(event.old) is not _is_present(event.new) or _is_replaced(event)


def generation_changed(event: CacheEvent) -> bool:
    """The spec has changed. A kind that counts no generations passes whatever its change."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return new.generation != old.generation or new.generation == 0 or _is_replaced(event)


def resource_version_changed(event: CacheEvent) -> bool:
    """Anything has changed."""
    return event.old is None or event.new is None or event.new.version != event.old.version


def label_changed(event: CacheEvent) -> bool:
    """The labels have changed."""
    return _differs(event, lambda meta: meta.labels)


def annotation_changed(event: CacheEvent) -> bool:
    """The annotations have changed."""
    return _differs(event, lambda meta: meta.annotations)


def finalizer_changed(event: CacheEvent) -> bool:
    """The finalizers have changed."""
    return _differs(event, lambda meta: meta.finalizers)


def desired_state_changed(event: CacheEvent) -> bool:
    """Somebody wants something else: the spec, labels, annotations or finalizers changed, or it is deleted.

    A status does not pass, whoever has written it. The default of an operator lets a status pass that another
    client has written, too: `any_of(desired_state_changed, status_changed)`.
    """
    return (
        generation_changed(event)
        or termination_started(event)
        or _differs(event, lambda meta: (meta.labels, meta.annotations, meta.finalizers))
    )


def status_changed(event: CacheEvent) -> bool:
    """The status has changed.

    Of an operator's own kind, a change does not pass while the operator reconciles the object: it may be the
    operator's own. The end of that reconcile compares the status.
    """
    old, new = event.old, event.new
    if event.reconciling:
        return False
    return old is not None and new is not None and _decode(old.raw).status != _decode(new.raw).status


def any_of(*predicates: Predicate) -> Predicate:
    """An event passes if one of `predicates` lets it."""

    def passes(event: CacheEvent) -> bool:
        for predicate in predicates:  # noqa: SIM110 - a generator costs more than most predicates
            if predicate(event):
                return True
        return False

    return _made_of(passes, predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """An event passes if all of `predicates` let it."""
    return _made_of(lambda event: all(predicate(event) for predicate in predicates), predicates)


def not_(predicate: Predicate) -> Predicate:
    """An event passes if `predicate` does not let it."""
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
    """Whether another object of the same name has taken the place of the old one, unseen in between."""
    return event.old is not None and event.new is not None and event.new.uid != event.old.uid


def _differs(event: CacheEvent, part: Callable[[Meta], object]) -> bool:
    before = event.old_meta
    if before is None or event.new is None:
        return True
    return part(event.meta) != part(before)
