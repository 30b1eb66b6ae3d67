"""Validation of a container's resource requests and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.checks import texts
from devcluster.builtin.quantity import is_whole, value_of
from devcluster.errors import FieldError, field_invalid
from devcluster.names import label_key

__all__ = ["amount_errors", "resource_requirements"]

Object = Mapping[str, Any]

STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
OTHER_RESOURCES = frozenset(
    {
        "configmaps",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)
"""Standard resources that containers cannot request."""
COUNTED = (
    OTHER_RESOURCES
    - {name for name in OTHER_RESOURCES if name.startswith(("limits.", "requests."))}
    - {"storage"}
)


def resource_requirements(resources: Object, path: str) -> list[FieldError]:
    """Check the names and amounts of limits and requests, and that no request exceeds its limit."""
    wrong: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, listed in (("limits", limits), ("requests", requests)):
        for name, amount in listed.items():
            here = f"{path}.{part}[{name}]"
            wrong += _resource_name(name, here)
            wrong += amount_errors(name, amount, here)
            if part == "requests" and name in limits and value_of(amount) != value_of(limits[name]):
                wrong += _within(name, amount, limits[name], f"{path}.requests")
    return wrong


def amount_errors(name: str, amount: Any, path: str) -> list[FieldError]:
    """Check an amount: non-negative, and an integer where fractions make no sense."""
    wrong = []
    if value_of(amount) < 0:
        wrong.append(field_invalid(path, amount, "must be greater than or equal to 0"))
    extended = "/" in name and not name.startswith(("kubernetes.io/", "requests."))
    if (extended or name in COUNTED) and not is_whole(amount):
        wrong.append(field_invalid(path, amount, "must be an integer"))
    return wrong


def _within(name: str, amount: Any, limit: Any, path: str) -> list[FieldError]:
    if "/" in name and not name.startswith("kubernetes.io/"):
        return [field_invalid(path, amount, f"must be equal to {name} limit of {limit}")]
    if value_of(amount) > value_of(limit):
        return [field_invalid(path, amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _resource_name(name: str, path: str) -> list[FieldError]:
    wrong = texts(label_key(name), path, name)
    if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
        if name not in OTHER_RESOURCES:
            text = "must be a standard resource type or fully qualified"
            wrong.append(field_invalid(path, name, text))
        wrong.append(field_invalid(path, name, "must be a standard resource for containers"))
    return wrong
