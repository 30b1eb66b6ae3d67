"""The QoS class of a pod, by its containers' requests and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.quantity import value_of

__all__ = ["quality_of_service"]

COMPUTE = ("cpu", "memory")


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`."""
    asked = limited = False
    guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        if not requests and not limits:
            guaranteed = False
            continue
        asked = asked or any(value_of(requests.get(name, 0)) for name in COMPUTE)
        limited = limited or any(value_of(limits.get(name, 0)) for name in COMPUTE)
        guaranteed = guaranteed and all(
            value_of(limits.get(name, 0))
            and value_of(requests.get(name, limits.get(name, 0))) == value_of(limits[name])
            for name in COMPUTE
        )
    if not asked and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
