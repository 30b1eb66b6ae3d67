"""Functions of pod controllers: readiness, availability, deletion order, and pods from a template."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.controllers import conditions
from devcluster.controllers.client import Client, Object
from devcluster.controllers.metadata import owner_reference

__all__ = [
    "condition_of",
    "deletion_order",
    "disrupt",
    "is_active",
    "is_available",
    "is_ready",
    "is_terminating",
    "parse_time",
    "pod_from",
    "seconds_until_available",
]


def parse_time(text: str) -> datetime.datetime:
    """Parse a metav1.Time."""
    return datetime.datetime.fromisoformat(text)


def condition_of(obj: Object, kind: str) -> Object | None:
    """Return a condition of the status, or None."""
    return conditions.find(obj.get("status", {}).get("conditions") or (), kind)


def is_terminating(pod: Object) -> bool:
    """Return whether the pod is being deleted and has not ended."""
    return bool(pod["metadata"].get("deletionTimestamp")) and not _ended(pod)


def is_active(pod: Object) -> bool:
    """Return whether the pod is neither being deleted nor ended."""
    return not pod["metadata"].get("deletionTimestamp") and not _ended(pod)


def is_ready(pod: Object) -> bool:
    """Return whether the pod is ready for traffic."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition["status"] == "True"


def seconds_until_available(pod: Object, min_ready: int, now: datetime.datetime) -> float | None:
    """Return the seconds until the pod has been ready for `min_ready` seconds, or None if it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    since = condition.get("lastTransitionTime")
    if not min_ready or not since:
        return 0.0
    return (parse_time(since) - now).total_seconds() + min_ready


def is_available(pod: Object, min_ready: int, now: datetime.datetime) -> bool:
    """Return whether the pod has been ready for `min_ready` seconds."""
    seconds = seconds_until_available(pod, min_ready, now)
    return seconds is not None and seconds <= 0


async def disrupt(client: Client, pod: Object, reason: str, message: str, now: str) -> None:
    """Delete a pod for a reason that is not its own, which a condition tells."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    condition = {
        "type": "DisruptionTarget",
        "observedGeneration": metadata.get("generation", 1),
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    changed = {**status, "conditions": conditions.replaced(status.get("conditions") or (), condition)}
    await client.update("pods", metadata["namespace"], {**pod, "status": changed}, subresource="status")
    await client.delete("pods", metadata["namespace"], metadata["name"], uid=metadata["uid"])


def deletion_order(pods: Sequence[Object], related: Sequence[Object]) -> list[Object]:
    """Order pods for deletion, the least useful first.

    `related` are the pods of the same application: a pod on a node with more of them goes earlier.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        if is_active(pod):
            node = pod["spec"].get("nodeName", "")
            crowd[node] = crowd.get(node, 0) + 1
    return sorted(pods, key=lambda pod: _reluctance(pod, crowd))


def pod_from(template: Object, owner: Object, *, prefix: str = "", name: str = "") -> Object:
    """Build a pod from the template of `owner`, with a name or a name prefix."""
    metadata: dict[str, Any] = {"generateName": prefix} if prefix else {"name": name}
    metadata["namespace"] = owner["metadata"]["namespace"]
    described: Mapping[str, Any] = template.get("metadata") or {}
    for field in ("labels", "annotations", "finalizers"):
        if described.get(field):
            metadata[field] = copy.copy(described[field])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def _ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _reluctance(pod: Object, crowd: Mapping[str, int]) -> tuple[Any, ...]:
    node, ready = pod["spec"].get("nodeName", ""), condition_of(pod, "Ready")
    status = pod.get("status", {})
    is_up = ready is not None and ready["status"] == "True"
    annotations = pod["metadata"].get("annotations") or {}
    cost = annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
    restarts = max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0)
    return (
        bool(node),
        {"Pending": 0, "Unknown": 1}.get(status.get("phase", "Pending"), 2),
        is_up,
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -crowd.get(node, 0),
        _newest_first(ready.get("lastTransitionTime") if is_up and ready else None),
        -restarts,
        _newest_first(pod["metadata"].get("creationTimestamp")),
    )


def _newest_first(timestamp: str | None) -> float:
    return -parse_time(timestamp).timestamp() if timestamp else 0.0
