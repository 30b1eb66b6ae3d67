"""The status of a Deployment: its counts, and conditions about its rollout."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from devcluster.controllers import conditions
from devcluster.controllers.client import Object
from devcluster.controllers.deployment import sizes
from devcluster.controllers.pods import parse_time

__all__ = [
    "counted",
    "has_deadline",
    "is_complete",
    "progress",
    "progressing",
    "seconds_until_deadline",
    "with_failures",
]

NO_DEADLINE = 2147483647
"""The progressDeadlineSeconds that means no deadline."""


def has_deadline(deployment: Object) -> bool:
    """Return whether the Deployment has a progress deadline."""
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, NO_DEADLINE}


def progressing(status: str, reason: str, message: str, now: str) -> Object:
    """Build a Progressing condition."""
    return _condition("Progressing", status, reason, message, now)


def counted(
    deployment: Object, new: Object | None, replica_sets: Sequence[Object | None], now: str
) -> Object:
    """Return the Deployment's status: its ReplicaSets' counts, Available, and the former conditions."""
    former = deployment.get("status") or {}
    available = sizes.available(*replica_sets)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": sizes.status_sum("replicas", *replica_sets),
        "updatedReplicas": sizes.status_sum("replicas", new),
        "readyReplicas": sizes.status_sum("readyReplicas", *replica_sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sizes.size(*replica_sets) - available, 0),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sizes.status_sum("terminatingReplicas", *replica_sets)
    if available >= sizes.replicas(deployment) - sizes.max_unavailable(deployment):
        condition = _condition(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
        )
    else:
        condition = _condition(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    status["conditions"] = conditions.set_condition(former.get("conditions") or (), condition)
    if "collisionCount" in former:
        status["collisionCount"] = former["collisionCount"]
    return status


def progress(
    deployment: Object, new: Object | None, status: Object, now: datetime.datetime, text: str
) -> None:
    """Set the Progressing condition in `status`, as `counted` made it; `text` is `now` as it is written."""
    if not has_deadline(deployment):
        status["conditions"] = conditions.without(status["conditions"], "Progressing")
        return
    former = deployment.get("status") or {}
    condition = conditions.find(former.get("conditions") or (), "Progressing")
    settled = condition is not None and condition["reason"] == "NewReplicaSetAvailable"
    if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return
    subject = (
        f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.", text),
        )
    elif _moved(former, status):
        moved = progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.", text)
        if condition is not None and condition["status"] == "True":
            moved["lastTransitionTime"] = condition["lastTransitionTime"]
        # The condition is replaced even if it has the same reason, because the deadline counts from its time.
        status["conditions"] = conditions.replaced(status["conditions"], moved)
    elif _timed_out(deployment, status, now):
        status["conditions"] = conditions.set_condition(
            status["conditions"],
            progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.", text),
        )


def with_failures(status: Object, new: Object | None, replica_sets: Sequence[Object | None]) -> None:
    """Show why pods cannot be made, of the newest ReplicaSet first."""
    for each in (new, *replica_sets):
        known = ((each or {}).get("status") or {}).get("conditions") or ()
        failure = conditions.find(known, "ReplicaFailure")
        if failure is not None:
            shown = _condition(
                "ReplicaFailure",
                failure["status"],
                failure.get("reason", ""),
                failure.get("message", ""),
                failure["lastTransitionTime"],
            )
            status["conditions"] = conditions.set_condition(status["conditions"], shown)
            return
    status["conditions"] = conditions.without(status["conditions"], "ReplicaFailure")


def is_complete(deployment: Object, status: Object) -> bool:
    """Return whether all pods have the newest revision and are available."""
    wanted = sizes.replicas(deployment)
    return all(
        status.get(field, 0) == wanted for field in ("updatedReplicas", "replicas", "availableReplicas")
    ) and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)


def seconds_until_deadline(deployment: Object, now: datetime.datetime) -> float | None:
    """Return the seconds until the deadline of a rollout without progress; None without a deadline."""
    status = deployment.get("status") or {}
    condition = conditions.find(status.get("conditions") or (), "Progressing")
    if not has_deadline(deployment) or condition is None:
        return None
    if is_complete(deployment, status) or condition["reason"] == "ProgressDeadlineExceeded":
        return None
    since = parse_time(condition["lastUpdateTime"])
    return float(deployment["spec"]["progressDeadlineSeconds"]) - (now - since).total_seconds()


def _moved(old: Object, new: Object) -> bool:
    def count(status: Object, field: str) -> int:
        value: int = status.get(field, 0)
        return value

    def outdated(status: Object) -> int:
        return count(status, "replicas") - count(status, "updatedReplicas")

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(count(new, field) > count(old, field) for field in grown)


def _timed_out(deployment: Object, status: Object, now: datetime.datetime) -> bool:
    condition = conditions.find(status["conditions"], "Progressing")
    if condition is None or condition["reason"] == "NewReplicaSetAvailable":
        return False
    if condition["reason"] == "ProgressDeadlineExceeded":
        return True
    waited = now - parse_time(condition["lastUpdateTime"])
    return bool(waited.total_seconds() > deployment["spec"]["progressDeadlineSeconds"])


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
