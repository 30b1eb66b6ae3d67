# Made by scripts/generate-api-models; do not edit.
"""Types of meta/v1: LabelSelector."""

from __future__ import annotations

from typing import Annotated

from manager.api.builtin.part import Part
from manager.api.schema import atomic_list, atomic_map

__all__ = ["LabelSelector", "LabelSelectorRequirement"]


class LabelSelectorRequirement(Part):
    key: str
    operator: str
    values: Annotated[list[str] | None, atomic_list()] = None


class LabelSelector(Part, json_schema_extra=atomic_map()):
    match_labels: dict[str, str] | None = None
    match_expressions: Annotated[list[LabelSelectorRequirement] | None, atomic_list()] = None
