"""Events about objects, recorded without getting in the way of the work they tell of."""

from __future__ import annotations

from manager.events.recorder import EventRecorder
from manager.events.series import EventType, ObjectReference

__all__ = ["EventRecorder", "EventType", "ObjectReference"]
