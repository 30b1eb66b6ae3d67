"""From pydantic's JSON schema to the structural schema that the API server asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manager.api import ApiModel, Resource
from manager.api.schema import REQUIRED
from manager.codegen.errors import ModelError
from manager.codegen.keywords import CARRIED, IGNORED, ORDER
from manager.codegen.lists import check_merging
from manager.codegen.model_schema import INEXPRESSIBLE, JsonSchema, model_schema
from manager.codegen.prose import paragraphs
from manager.codegen.scalars import bounds, checked_format, checked_pattern, enum_type
from manager.codegen.unions import collapse

__all__ = ["object_schema", "structural_schema"]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_REFUSED = {
    "prefixItems": "a tuple has no structural schema; use a model with a field for each place",
    "writeOnly": "a SecretStr is written as asterisks; use str, or better a reference to a Secret",
    "uniqueItems": "a set has no order on the wire; use a list with list_set()",
    "propertyNames": "the server cannot limit the keys of a map; use dict[str, ...] and a CEL rule",
    "patternProperties": "the server cannot limit the keys of a map; use dict[str, ...] and a CEL rule",
}

_TRANSLATED: dict[str, Callable[[Any, str], JsonSchema]] = {
    "const": lambda value, _: {"enum": [value]},
    "description": lambda text, _: {"description": paragraphs(text)},
    "default": lambda value, _: {} if value is None else {"default": _without_null(value)},
    "format": lambda name, field: {"format": checked_format(name, field)},
    "pattern": lambda pattern, field: {"pattern": checked_pattern(pattern, field)},
}
# Read together with others, once it is known what the value is.
_BY_TYPE = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "properties",
        "required",
        "additionalProperties",
        "items",
        REQUIRED,
    }
)


def structural_schema(kind: type[Resource]) -> JsonSchema:
    """Return the OpenAPI v3 schema of a kind's objects.

    Raises ModelError, which names the field, for what a structural schema cannot say.
    """
    whole = model_schema(kind)
    # The server has its own schemas for these, and accepts no other.
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    fields = {name: value for name, value in whole["properties"].items() if name not in own}
    schema = _convert({**whole, "properties": fields}, kind.__name__)
    schema["properties"] = {**own, **schema["properties"]}
    return schema


def object_schema(model: type[ApiModel]) -> JsonSchema:
    """Return the schema of what a model says that is a part of objects. Raises ModelError."""
    return _convert(model_schema(model), model.__name__)


def _convert(node: JsonSchema, field: str) -> JsonSchema:
    """Convert the schema of a value; alternatives and None are dealt with before."""
    if INEXPRESSIBLE in node:
        raise ModelError(field, f"has no JSON schema: {node[INEXPRESSIBLE]}")
    schema: JsonSchema = {}
    for keyword, value in node.items():
        if keyword in CARRIED:
            schema[keyword] = value
        elif keyword in _TRANSLATED:
            schema.update(_TRANSLATED[keyword](value, field))
        elif keyword not in IGNORED and keyword not in _BY_TYPE:
            raise ModelError(field, _REFUSED.get(keyword, f"a structural schema has no {keyword!r}"))
    schema.update(bounds(node))
    if "enum" in schema:
        schema.setdefault("type", enum_type(schema["enum"], field))
    if "type" not in schema and _INT_OR_STRING not in schema and _PRESERVE not in schema:
        raise ModelError(field, "any value at all is accepted only with preserve_unknown()")
    if schema.get("type") == "object":
        schema.update(_object(node, field))
    elif schema.get("type") == "array":
        schema["items"] = _element(node.get("items", {}), f"{field}[]")
    check_merging(schema, field)
    return {keyword: schema[keyword] for keyword in ORDER if keyword in schema}


def _object(node: JsonSchema, field: str) -> JsonSchema:
    if "properties" in node:
        return _model(node, field)
    values = node.get("additionalProperties", True)
    if isinstance(values, dict) and values:
        return {"additionalProperties": _element(values, f"{field}{{}}")}
    if _PRESERVE not in node:
        raise ModelError(field, "a map of any values is accepted only with preserve_unknown()")
    return {}


def _model(node: JsonSchema, field: str) -> JsonSchema:
    """Convert a model's fields.

    What the model does with other fields (`additionalProperties`) says how code reads an object; the server
    drops them before they are stored.
    """
    properties: JsonSchema = {}
    required: list[str] = []
    for name, declared in node["properties"].items():
        path = f"{field}.{name}"
        value, nullable = collapse(declared, path)
        must = name in node.get("required", ())
        if must and nullable:
            raise ModelError(path, "may be None but must be given; give it the default None")
        if REQUIRED in value:
            must = True
            value = {keyword: said for keyword, said in value.items() if keyword != "default"}
        if must:
            required.append(name)
        properties[name] = _convert(value, path)
    return {"properties": properties, **({"required": required} if required else {})}


def _element(node: JsonSchema, field: str) -> JsonSchema:
    """Convert what a list or a map holds; None is a value there, and not the same as a missing one."""
    value, nullable = collapse(node, field)
    element = _convert(value, field)
    return {**element, "nullable": True} if nullable else element


def _without_null(value: Any) -> Any:
    """Drop what is None from a default that is a model, as `to_wire` does."""
    if isinstance(value, dict):
        return {name: _without_null(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_null(inner) for inner in value]
    return value
