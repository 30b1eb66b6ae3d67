"""Unions, of which the server knows two: a value that may be missing, and an integer or a string."""

from __future__ import annotations

from typing import NamedTuple

from manager.codegen.errors import ModelError
from manager.codegen.model_schema import JsonSchema, overlaid

__all__ = ["Collapsed", "collapse"]

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


class Collapsed(NamedTuple):
    """A schema without alternatives, and whether None was one of them."""

    schema: JsonSchema
    nullable: bool


def collapse(node: JsonSchema, field: str) -> Collapsed:
    """Reduce a union to its one member that is not None; raises ModelError when there are several."""
    nullable = False
    for keyword in _ALTERNATIVES:
        if keyword not in node:
            continue
        beside = {name: value for name, value in node.items() if name not in {keyword, "discriminator"}}
        members = [member for member in node[keyword] if member.get("type") != "null"]
        if len(members) != 1:
            raise ModelError(field, _refusal(members))
        inner = collapse(members[0], field)
        nullable = nullable or inner.nullable or len(members) < len(node[keyword])
        node = overlaid(inner.schema, beside)
    if None in node.get("enum", ()):
        node = {**node, "enum": [value for value in node["enum"] if value is not None]}
        nullable = True
    return Collapsed(node, nullable)


def _refusal(members: list[JsonSchema]) -> str:
    types = sorted(str(member.get("type", "any")) for member in members)
    if types == ["integer", "string"]:
        return "a union of int and str is expressed by IntOrString"
    return (
        f"a structural schema has no union of several types ({', '.join(types)}): "
        "give each an optional field of its own, and a CEL rule that exactly one is set"
    )
