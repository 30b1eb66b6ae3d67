"""What the API server holds, kept close: shared watches, indexed, as bytes, never behind our own writes."""

from __future__ import annotations

from manager.cache.event import CacheEvent, EventType, own_writes_from_here
from manager.cache.index import IndexFunction, index_by, steps_of
from manager.cache.informer import (
    EventHandler,
    Informer,
    Part,
)
from manager.cache.record import Meta, Owner, Record, metadata_of
from manager.cache.registry import Cache
from manager.cache.spec import WHOLE, Selection, SelectionOptions, Selector, WatchSpec

__all__ = [
    "WHOLE",
    "Cache",
    "CacheEvent",
    "EventHandler",
    "EventType",
    "IndexFunction",
    "Informer",
    "Meta",
    "Owner",
    "Part",
    "Record",
    "Selection",
    "SelectionOptions",
    "Selector",
    "WatchSpec",
    "index_by",
    "metadata_of",
    "own_writes_from_here",
    "steps_of",
]
