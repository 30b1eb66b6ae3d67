"""Patches of all types, and field management, for objects in the form of dicts."""

from __future__ import annotations

from devcluster.patch.json_patch import json_patch, merge_patch
from devcluster.patch.ownership import apply, check_applied, record_update
from devcluster.patch.scale import parent_entries, scale_entries
from devcluster.patch.strategic import strategic_merge_patch
from devcluster.patch.write import Convert, Write, in_versions

__all__ = [
    "Convert",
    "Write",
    "apply",
    "check_applied",
    "in_versions",
    "json_patch",
    "merge_patch",
    "parent_entries",
    "record_update",
    "scale_entries",
    "strategic_merge_patch",
]
