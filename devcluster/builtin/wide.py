"""Cells that the wide tables of several workloads share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["container_cells", "labels_cell", "selector_cell"]

NONE = "<none>"


def container_cells(template: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the names and the images of a template's containers."""
    listed = ((template or {}).get("spec") or {}).get("containers") or ()
    return ",".join(each.get("name", "") for each in listed), ",".join(
        each.get("image", "") for each in listed
    )


def labels_cell(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector as a query."""
    if not selector:
        return NONE
    parts = [(key, "=", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        (each.get("key", ""), each.get("operator", ""), each.get("values") or [])
        for each in selector.get("matchExpressions") or ()
    ]
    return ",".join(_requirement(*part) for part in sorted(parts)) or NONE


def _requirement(key: str, operator: str, values: list[str]) -> str:
    if operator == "=":
        return f"{key}={values[0]}"
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(values))})"
