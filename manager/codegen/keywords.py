"""Which words of JSON Schema a structural schema has."""

from __future__ import annotations

__all__ = ["CARRIED", "FORMATS", "IGNORED", "ORDER"]

# Mean the same in both.
CARRIED = frozenset(
    {
        "type",
        "enum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "nullable",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)

# For people and tools that read the JSON schema itself.
IGNORED = frozenset({"title", "examples", "deprecated", "readOnly"})

# Formats that the server checks, less those that mean something else to pydantic: `duration` is ISO 8601
# here and Go's notation there, and `binary` is no text at all. The server warns of any other.
FORMATS = frozenset(
    {
        "byte",
        "cidr",
        "date",
        "date-time",
        "double",
        "email",
        "float",
        "hostname",
        "int32",
        "int64",
        "ipv4",
        "ipv6",
        "mac",
        "password",
        "uri",
        "uuid",
    }
)

# As a person reads a schema: what it is, what it may hold, and what is inside.
ORDER = (
    "description",
    "type",
    "format",
    "nullable",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "required",
    "properties",
    "additionalProperties",
    "items",
)
