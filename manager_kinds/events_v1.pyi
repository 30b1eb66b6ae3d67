# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Resource
from manager_kinds.core_v1 import EventSourceDict, ObjectReferenceDict
from manager_kinds.factory import Part

__all__ = ["Event", "EventSeries", "EventSeriesDict"]

class Event(Resource, group="events.k8s.io", version="v1", plural="events"):
    """Event of events.k8s.io/v1."""

    event_time: str
    series: EventSeriesDict | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    action: str | None = None
    reason: str | None = None
    regarding: ObjectReferenceDict | None = None
    related: ObjectReferenceDict | None = None
    note: str | None = None
    type: str | None = None
    deprecated_source: EventSourceDict | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int | None = None

class EventSeries(Part[EventSeriesDict]):
    count: int
    last_observed_time: datetime

class EventSeriesDict(TypedDict, total=False):
    count: Required[int]
    lastObservedTime: Required[str]
