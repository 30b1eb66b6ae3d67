"""A local cache of the API server's objects: shared watches, indexes, raw bytes, and our own writes."""

from __future__ import annotations

from manager.cache.cache import Cache
from manager.cache.informer import EventHandler, Informer, ObjectFilter, Part
from manager.cache.record import (
    CacheEvent,
    EventType,
    Meta,
    Owner,
    Record,
    meta_in,
    metadata_of,
    own_writes_from_here,
)
from manager.cache.spec import WHOLE, Selection, SelectionOptions, WatchSpec
from manager.cache.store import IndexFunction, index_by, steps_of

__all__ = [
    "WHOLE",
    "Cache",
    "CacheEvent",
    "EventHandler",
    "EventType",
    "IndexFunction",
    "Informer",
    "Meta",
    "ObjectFilter",
    "Owner",
    "Part",
    "Record",
    "Selection",
    "SelectionOptions",
    "WatchSpec",
    "index_by",
    "meta_in",
    "metadata_of",
    "own_writes_from_here",
    "steps_of",
]
