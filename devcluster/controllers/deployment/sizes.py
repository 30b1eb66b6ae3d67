"""Arithmetic for the sizes of a Deployment and its ReplicaSets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from devcluster.controllers.client import Object

__all__ = [
    "DESIRED",
    "MAXIMUM",
    "active",
    "available",
    "is_rolling",
    "max_surge",
    "max_unavailable",
    "new_size",
    "proportions",
    "replicas",
    "scaled",
    "size",
    "status_sum",
]

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def replicas(deployment: Object) -> int:
    """Return the desired number of pods."""
    value: int = deployment["spec"].get("replicas", 1)
    return value


def size(*replica_sets: Object | None) -> int:
    """Return the desired number of pods of all these ReplicaSets."""
    return sum(each["spec"].get("replicas", 1) for each in replica_sets if each is not None)


def status_sum(field: str, *replica_sets: Object | None) -> int:
    """Return the sum of a count in the status of all ReplicaSets."""
    return sum((each.get("status") or {}).get(field, 0) for each in replica_sets if each is not None)


def available(*replica_sets: Object | None) -> int:
    """Return the number of available pods."""
    return status_sum("availableReplicas", *replica_sets)


def active(replica_sets: Sequence[Object | None]) -> list[Object]:
    """Return the ReplicaSets with a desired size above 0."""
    return [each for each in replica_sets if each is not None and size(each) > 0]


def is_rolling(deployment: Object) -> bool:
    """Return whether the Deployment uses rolling updates."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """Resolve a number or a percentage of `total`, rounded up or down."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * total / 100
    return math.ceil(part) if up else math.floor(part)


def max_surge(deployment: Object) -> int:
    """Return the maximum of pods above the desired number."""
    return _fence(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Object) -> int:
    """Return the maximum of missing pods."""
    wanted = replicas(deployment)
    if not is_rolling(deployment) or not wanted:
        return 0
    return min(_fence(deployment)[1], wanted)


def new_size(deployment: Object, replica_sets: Sequence[Object | None], current: int) -> int:
    """Return the size that the newest ReplicaSet, now `current`, may grow to; it is among `replica_sets`."""
    wanted = replicas(deployment)
    if not is_rolling(deployment):
        return wanted
    limit = wanted + max_surge(deployment)
    total = size(*replica_sets)
    if total >= limit:
        return current
    return current + min(limit - total, wanted - current)


def proportions(deployment: Object, replica_sets: Sequence[Object]) -> list[tuple[Object, int]]:
    """Return the new sizes when a Deployment is scaled during a rollout.

    Each ReplicaSet gets its share of the change, the first one the remainder too.
    """
    wanted = replicas(deployment)
    allowed = wanted + max_surge(deployment) if wanted else 0
    change = allowed - size(*replica_sets)
    if not change:
        return [(each, size(each)) for each in replica_sets]
    ordered = sorted(replica_sets, key=_created, reverse=change > 0)
    ordered.sort(key=size, reverse=True)
    sizes, added = [], 0
    for each in ordered:
        share = 0
        if added != change:
            part = _share(deployment, each, allowed)
            share = min(part, change - added) if change > 0 else max(part, change - added)
        sizes.append(size(each) + share)
        added += share
    sizes[0] = max(sizes[0] + change - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Object, replica_set: Object, allowed: int) -> int:
    current = size(replica_set)
    if not replicas(deployment):
        return -current
    annotation = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = int(annotation) if annotation.isdigit() else 0
    before = before or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    # Like Go, this rounds halves away from zero.
    return math.floor(current * allowed / before + 0.5) - current


def _created(replica_set: Object) -> tuple[str, str]:
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def _fence(deployment: Object) -> tuple[int, int]:
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas(deployment)
    surge = scaled(rolling.get("maxSurge", 0), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 0), wanted, up=False)
    # With both at zero the rollout could not proceed.
    return (surge, unavailable) if surge or unavailable else (0, 1)
