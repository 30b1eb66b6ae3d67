"""How server-side apply merges lists and maps: what the server demands of such a field."""

from __future__ import annotations

from manager.codegen.errors import ModelError
from manager.codegen.model_schema import JsonSchema

__all__ = ["check_merging"]

_LIST_TYPE = "x-kubernetes-list-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_SCALARS = ("string", "integer", "number", "boolean")


def check_merging(schema: JsonSchema, field: str) -> None:
    """Raise ModelError when a converted schema is merged in a way that its type does not have."""
    if _LIST_TYPE in schema and schema.get("type") != "array":
        raise ModelError(field, "list_map(), list_set() and atomic_list() are for lists")
    if _MAP_TYPE in schema and schema.get("type") != "object":
        raise ModelError(field, "atomic_map() is for maps and models")
    if schema.get(_LIST_TYPE) == "set" and schema["items"].get("type") not in _SCALARS:
        raise ModelError(field, "the items of a list_set() must be scalars")
    for key in schema.get(_MAP_KEYS, ()):
        _check_map_key(schema["items"], key, field)


def _check_map_key(items: JsonSchema, key: str, field: str) -> None:
    key_schema = items.get("properties", {}).get(key)
    if key_schema is None:
        raise ModelError(field, f"list_map() names {key!r}, which its items do not have")
    if key_schema.get("type") not in _SCALARS:
        raise ModelError(field, f"the list_map() key {key!r} must be a scalar")
    if key not in items.get("required", ()) and "default" not in key_schema:
        raise ModelError(field, f"the list_map() key {key!r} must be required or have a default")
