"""Events about objects, recorded without getting in the way of the work they tell of."""

from __future__ import annotations

from manager.events.correlator import EventType, ObjectReference
from manager.events.recorder import EventRecorder

__all__ = ["EventRecorder", "EventType", "ObjectReference"]
