"""Conversion of pydantic's JSON schema to the structural schema that the API server requires."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from manager.api import ApiModel, Resource
from manager.api.schema import REQUIRED, SERVER_DEFAULT
from manager_tools.codegen.model_schema import (
    INEXPRESSIBLE,
    JsonSchema,
    ModelError,
    model_schema,
    overlaid,
    paragraphs,
)
from manager_tools.codegen.server_checks import go_pattern

# Keywords for readers of the JSON schema itself.
IGNORED = frozenset({"title", "examples", "deprecated", "readOnly"})

# Formats that the API server checks, except for those that pydantic defines in another way: `duration` is ISO
# 8601 in pydantic and Go's notation in the API server, and `binary` is not text. The API server warns of any
# other format.
FORMATS = frozenset(
    {
        *("byte", "cidr", "date", "date-time", "double", "email", "float", "hostname", "int32", "int64"),
        *("ipv4", "ipv6", "mac", "password", "uri", "uuid"),
    }
)

# Keyword order for readers of a schema: description and type first, then constraints, then contents.
ORDER = (
    *("description", "type", "format", "nullable", "default", "enum", "pattern", "minLength", "maxLength"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("x-kubernetes-embedded-resource", "anyOf", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    *("required", "properties", "additionalProperties", "items"),
)


RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LARGEST_FLOAT32 = 3.4028234663852886e38
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def bounds(node: JsonSchema, field: str) -> JsonSchema:
    """Return the node's bounds as OpenAPI v3 has them, where `exclusiveMaximum` is a boolean.

    Bounds that type and format imply are left out. Raises ModelError for a bound that does not fit these.
    """
    lowest, highest = RANGES.get(_integer_format(node), (None, None))
    found: JsonSchema = {}
    minimum, above = node.get("minimum"), node.get("exclusiveMinimum")
    if above is not None and (minimum is None or above >= minimum):
        found.update(minimum=above, exclusiveMinimum=True)
    elif minimum is not None and minimum != lowest:
        found.update(minimum=minimum)
    maximum, below = node.get("maximum"), node.get("exclusiveMaximum")
    if below is not None and (maximum is None or below <= maximum):
        found.update(maximum=below, exclusiveMaximum=True)
    elif maximum is not None and maximum != highest:
        found.update(maximum=maximum)
    for word in ("minimum", "maximum", "multipleOf"):
        if (bound := found.get(word, node.get(word) if word == "multipleOf" else None)) is not None:
            _check_bound(bound, word, node, field)
    return found


def _integer_format(node: JsonSchema) -> str:
    return node.get("format") or ("int64" if node.get("type") == "integer" else "")


def _check_bound(bound: float, word: str, node: JsonSchema, field: str) -> None:
    if not math.isfinite(bound):
        raise ModelError(field, f"its {word} has to be a finite number, not {bound}")
    low, high = RANGES.get(_integer_format(node), RANGES["int64"])
    # The API server stores bounds as floating-point numbers, so the ends of int64 are out of range.
    if not (low <= float(bound) <= high and -(2.0**63) < float(bound) < 2.0**63):
        of = "int32" if high < 2**63 - 1 else "int64"
        raise ModelError(field, f"its {word} {bound} is beyond {of}, so the server would refuse every value")
    if node.get("type") == "integer" and bound != int(bound):
        raise ModelError(field, f"its {word} {bound} is no whole number, and the values are")
    if node.get("format") == "float" and abs(bound) > _LARGEST_FLOAT32:
        raise ModelError(field, f"its {word} {bound} is beyond the format float")
    if word == "multipleOf" and bound <= 0:
        raise ModelError(field, f"its {word} has to be more than 0, not {bound}")


def checked_format(name: str, field: str) -> str:
    """Return the format; raise ModelError if the API server does not know it or gives it another meaning."""
    if name not in FORMATS:
        hint = "; use str with a pattern" if name in {"duration", "time", "binary"} else ""
        raise ModelError(field, f"the server has no format {name!r} of this meaning{hint}")
    return name


def enum_type(values: Sequence[Any], field: str) -> str:
    """Return the common type of the `enum` values in a field's schema.

    Raises ModelError if the types differ, or if the API server does not support one of them.
    """
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(field, f"its enum has {value}, and JSON has no such number")
        if type(value) is int and not RANGES["int64"][0] <= value <= RANGES["int64"][1]:
            raise ModelError(field, f"its enum has {value}, which is beyond int64")
    types = {_JSON_TYPES.get(type(value), "object") for value in values}
    if len(types) != 1:
        raise ModelError(field, "the values of an enum must all be of one type")
    return types.pop()


_LIST_TYPE = "x-kubernetes-list-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_SCALARS = ("string", "integer", "number", "boolean")


def check_merging(schema: JsonSchema, field: str) -> None:
    """Raise ModelError if `x-kubernetes-list-type` or `-map-type` does not fit the type of a schema."""
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


_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


class Collapsed(NamedTuple):
    """A schema without a union, and whether None was a member of the union."""

    schema: JsonSchema
    nullable: bool


def collapse(node: JsonSchema, field: str) -> Collapsed:
    """Reduce a union to its only member besides None; raise ModelError if it has several."""
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
    "default": lambda value, field: {} if value is None else {"default": _json_default(value, field)},
    SERVER_DEFAULT: lambda value, field: {"default": _json_default(value, field)},
    "format": lambda name, field: {"format": checked_format(name, field)},
    "pattern": lambda pattern, field: {"pattern": go_pattern(pattern, field)},
}
# These keywords are read together, after the type of the value is known.
_BY_TYPE = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("properties", "required", "additionalProperties", "items", REQUIRED),
    }
)


# Keywords with the same meaning in JSON Schema and OpenAPI.
_CARRIED = frozenset(ORDER) - _TRANSLATED.keys() - _BY_TYPE - {"anyOf"}


def structural_schema(kind: type[Resource]) -> JsonSchema:
    """Return the OpenAPI v3 schema of a kind's objects.

    Raises ModelError with the field's name if a structural schema cannot express the model.
    """
    whole = model_schema(kind)
    # The API server has its own schemas for these fields; another one may only limit the name in metadata.
    own: JsonSchema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    fields = {name: value for name, value in whole["properties"].items() if name not in own}
    schema = _convert({**whole, "properties": fields}, kind.__name__)
    if any(each.get("fieldPath") == ".metadata.name" for each in schema.get("x-kubernetes-validations", ())):
        # A rule may use these fields as `fieldPath` only if the schema declares them.
        own["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema["properties"] = {**own, **schema["properties"]}
    return schema


def object_schema(model: type[ApiModel]) -> JsonSchema:
    """Return the schema of a model that is nested in other objects. Raises ModelError."""
    return _convert(model_schema(model), model.__name__)


def _convert(node: JsonSchema, field: str) -> JsonSchema:
    if INEXPRESSIBLE in node:
        raise ModelError(field, f"has no JSON schema: {node[INEXPRESSIBLE]}")
    schema: JsonSchema = {}
    for keyword, value in node.items():
        if keyword in _CARRIED:
            schema[keyword] = value
        elif keyword in _TRANSLATED:
            schema.update(_TRANSLATED[keyword](value, field))
        elif keyword not in IGNORED and keyword not in _BY_TYPE:
            raise ModelError(field, _REFUSED.get(keyword, f"a structural schema has no {keyword!r}"))
    if schema.get("type") == "null":
        raise ModelError(field, "the server has no type for None alone")
    schema.update(bounds(node, field))
    _check_default(schema.get("default"), _integer_format(node), field)
    if schema.get(_INT_OR_STRING):
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]  # in the form that controller-gen writes
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


def _check_default(default: Any, integer: str, field: str) -> None:
    low, high = RANGES.get(integer, RANGES["int64"])
    if isinstance(default, int) and not low <= default <= high:
        raise ModelError(field, f"its default {default} is beyond {integer}")


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

    The model's `additionalProperties` applies to Python only; the API server drops unknown fields before it
    stores an object.
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
    value, nullable = collapse(node, field)
    element = _convert(value, field)
    return {**element, "nullable": True} if nullable else element


def _json_default(value: Any, field: str) -> Any:
    """Return a default as JSON without a model's None fields; raise ModelError for NaN and infinity."""
    if isinstance(value, dict):
        return {name: _json_default(inner, field) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_json_default(inner, field) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelError(field, f"its default is {value}, and JSON has no such number")
    if isinstance(value, int) and not RANGES["int64"][0] <= value <= RANGES["int64"][1]:
        raise ModelError(field, f"its default {value} is beyond int64")
    return value
