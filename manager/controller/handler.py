"""Which objects to reconcile because of an event.

A handler is any callable that takes a `CacheEvent` and answers with requests. When an event moves an object
from one owner or label to another, both sides have to look: the handlers here map the object as it was and
as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from manager.api import Resource
from manager.cache import CacheEvent, Meta
from manager.controller.reconciler import Request

__all__ = ["Handler", "MapTo", "enqueue_mapped", "enqueue_object", "enqueue_owner"]

Handler: TypeAlias = Callable[[CacheEvent], Iterable[Request]]

MapTo: TypeAlias = Callable[[Meta], Iterable[Request]]
"""From an object's metadata to the requests it stands for."""


def enqueue_object(event: CacheEvent) -> Iterable[Request]:
    """The object itself."""
    return (event.key,)


def enqueue_mapped(map_to: MapTo) -> Handler:
    """What `map_to` makes of the object's metadata."""

    def handle(event: CacheEvent) -> Iterable[Request]:
        requests = list(map_to(event.meta))
        before = event.old_meta if event.new is not None else None
        if before is not None:
            requests += map_to(before)
        # Once each, in order.
        return dict.fromkeys(requests)

    return handle


def enqueue_owner(owner: type[Resource]) -> Handler:
    """The object of kind `owner` that manages the object (its controller, by owner reference)."""

    def owner_of(meta: Meta) -> Iterable[Request]:
        controller = meta.controller
        if controller is None or not owner.gvk.is_named_by(controller):
            return ()
        return (Request(meta.namespace if owner.namespaced else "", controller.name),)

    return enqueue_mapped(owner_of)
