"""Paths into objects, as printer columns and the scale subresource name fields."""

from __future__ import annotations

from manager.codegen.model_schema import JsonSchema

__all__ = ["leads_somewhere"]

_OPEN_ENDED = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
# The server's own part of every object, of which the schema says nothing.
_METADATA = ".metadata"


def leads_somewhere(path: str, schema: JsonSchema) -> bool:
    """True when the schema has a field at the path.

    The server accepts a path to nothing, and the column stays empty. Paths with brackets (filters, indexes,
    quoted names) are checked up to the bracket.
    """
    if path == _METADATA or path.startswith(_METADATA + "."):
        return True
    if not path.startswith("."):
        return False
    at = schema
    for name in path[1:].split("."):
        plain, bracket, _ = name.partition("[")
        if plain not in at.get("properties", {}):
            return any(word in at for word in _OPEN_ENDED)
        if bracket:
            return True
        at = at["properties"][plain]
    return True
