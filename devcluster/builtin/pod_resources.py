"""The requests and limits of a pod: their sums, and the QoS class that follows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from devcluster.builtin.quantity import value_of

__all__ = ["pod_resources", "quality_of_service"]

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


def pod_resources(spec: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    """Return what a pod of that specification takes; `part` is `requests` or `limits`.

    Init containers run one after the other, except those that stay beside the containers.
    """
    total: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        for name, amount in _amounts(container, part).items():
            total[name] = total.get(name, Fraction(0)) + amount
    sidecars: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        stays = container.get("restartPolicy") == "Always"
        for name, amount in _amounts(container, part).items():
            needed = amount + sidecars.get(name, 0)
            if stays:
                sidecars[name] = needed
                total[name] = total.get(name, Fraction(0)) + amount
            total[name] = max(total.get(name, Fraction(0)), needed)
    return total


def _amounts(container: Mapping[str, Any], part: str) -> dict[str, Fraction]:
    listed = (container.get("resources") or {}).get(part) or {}
    return {name: value_of(amount) for name, amount in listed.items()}
