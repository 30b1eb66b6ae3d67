"""How many objects may replace their pods at once because of another version or other settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manager.api import ObjectKey, Resource

# Of a workload's status: how many pods there are, are updated and are available; the wanted number is in
# `spec.replicas`, or in the status, too.
_STATUS = {
    "Deployment": ("replicas", "updatedReplicas", "availableReplicas", ""),
    "StatefulSet": ("replicas", "updatedReplicas", "availableReplicas", ""),
    "DaemonSet": (
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "desiredNumberScheduled",
    ),
}


def is_workload(child: Resource) -> bool:
    """Return whether the child replaces its pods when its template changes."""
    return child.gvk.group == "apps" and child.gvk.kind in _STATUS


def is_rolled_out(child: Resource) -> bool:
    """Return whether all pods of a workload are of its present template, and available."""
    wire: dict[str, Any] = child.to_wire()
    status, metadata = wire.get("status") or {}, wire["metadata"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return False
    *counted, wanted = _STATUS[child.gvk.kind]
    size = status.get(wanted, 0) if wanted else (wire.get("spec") or {}).get("replicas", 1)
    return all(status.get(name, 0) == size for name in counted)


class Rollouts:
    """The objects whose workloads are updated without a change of their spec, and those that wait for it."""

    def __init__(self, *, enqueue: Callable[[ObjectKey], None], gauge: Any) -> None:
        """`enqueue` has an object that has waited reconciled."""
        self.limited = False
        self._most = 0
        self._enqueue = enqueue
        self._under_way: set[ObjectKey] = set()
        self._waiting: dict[ObjectKey, None] = {}
        gauge.set_function(self._waiting.__len__)

    def limit(self, most: int | None) -> None:
        """Set how many objects may update at once; None for no limit."""
        self.limited = most is not None
        self._most = most or 0

    def __contains__(self, key: ObjectKey) -> bool:
        """Return whether the object's update is under way."""
        return key in self._under_way

    def may_begin(self, key: ObjectKey) -> bool:
        """Return whether the object may update its workloads now; else it is reconciled once it may."""
        if key not in self._under_way and len(self._under_way) >= self._most:
            self._waiting[key] = None
            return False
        self._waiting.pop(key, None)
        self._under_way.add(key)
        return True

    def end(self, key: ObjectKey) -> None:
        """Note that the object has no update under way, and waits for none."""
        self._waiting.pop(key, None)
        self._under_way.discard(key)
        free = self._most - len(self._under_way)
        for waiting in list(self._waiting)[: max(free, 0)]:
            self._enqueue(waiting)
