"""Events about objects, recorded without getting in the way of the work they tell of."""

from __future__ import annotations

from manager.events.recorder import EventRecorder
from manager.events.reference import ObjectReference
from manager.events.series import EventType

__all__ = ["EventRecorder", "EventType", "ObjectReference"]
