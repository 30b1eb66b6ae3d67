"""Our own entries in an object's `metadata.managedFields`, and the names we book them under.

An object that is not there yet is created with POST, not with an apply: it costs the API server about a
third less, and it is safer, because POST never takes over an object that somebody else made meanwhile. The
server books a POST as operation `Update` and counts its own defaults as ours, which a later apply could
neither compare nor take back. So the create is booked under a name that carries a digest of what was
wanted (`memcached+1f0c…`): as long as the same is wanted, that entry answers for it, and before the first
apply of something else it is renamed to a real apply entry, which then owns everything and lets go of what
is no longer wanted. (kubectl moves from client-side to server-side apply the same way.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["OwnEntries", "creator_name", "own_entries", "takeover_patch"]


@dataclass(frozen=True, slots=True)
class OwnEntries:
    """What the server has booked for one field manager: FieldsV1 records, None where there is no entry."""

    applied: Mapping[str, Any] | None
    created: Mapping[str, Any] | None
    created_by: str


def creator_name(field_manager: str, wanted: bytes) -> str:
    """The name under which creating `wanted` is booked."""
    return f"{field_manager}+{hashlib.blake2b(wanted, digest_size=6).hexdigest()}"


def own_entries(managed_fields: Sequence[Mapping[str, Any]], field_manager: str) -> OwnEntries:
    """Pick the entries of `field_manager` for the object itself (subresources are booked apart).

    One whose record is not in the server's format counts as one without fields.
    """
    applied = created = None
    created_by = ""
    for entry in managed_fields:
        if entry.get("subresource"):
            continue
        manager, operation, fields = entry.get("manager"), entry.get("operation"), entry.get("fieldsV1")
        if not isinstance(manager, str):
            continue
        if not isinstance(fields, dict):
            fields = {}
        if operation == "Apply" and manager == field_manager:
            applied = fields
        elif operation == "Update" and manager.startswith(field_manager + "+"):
            created, created_by = fields, manager
    return OwnEntries(applied, created, created_by)


def takeover_patch(
    managed_fields: Sequence[Mapping[str, Any]], field_manager: str
) -> list[dict[str, Any]] | None:
    """The JSON patch that turns the entry of our create into an apply entry; None when there is none.

    It tests what it renames, so a concurrent change of the list refuses it instead of corrupting it, and
    other managers' writes in between (a status update, say) do not.
    """
    for position, entry in enumerate(managed_fields):
        if entry.get("operation") != "Update" or entry.get("subresource"):
            continue
        manager = entry.get("manager")
        if not isinstance(manager, str) or not manager.startswith(field_manager + "+"):
            continue
        path = f"/metadata/managedFields/{position}"
        return [
            {"op": "test", "path": f"{path}/manager", "value": manager},
            {"op": "replace", "path": f"{path}/manager", "value": field_manager},
            {"op": "replace", "path": f"{path}/operation", "value": "Apply"},
        ]
    return None
