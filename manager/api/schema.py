"""Schema marks for fields, for rules that a type cannot express.

Each function returns a mark for `Annotated`, or, for a whole model, for `ConfigDict(json_schema_extra=...)`:

    conditions: Annotated[list[Condition], list_map("type"), cel("size(self) < 9", "too many conditions")]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

JsonSchema = dict[str, Any]

# Not a word of the server's: tells the generator to list the field as required.
REQUIRED = "x-required"
# Nor is this: the default of a field that is None in the model.
SERVER_DEFAULT = "x-server-default"


@dataclass(frozen=True, slots=True)
class SchemaMark:
    """A change of the JSON schema of the annotated type, at no cost where no schema is generated."""

    change: Callable[[JsonSchema], None]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        # A copy, so that the definition a reference points to stays as it is for its other users.
        schema = dict(handler(core))
        self.change(schema)
        return schema

    def __call__(self, schema: JsonSchema) -> None:
        """Change the schema of a whole model."""
        self.change(schema)


def _with(**words: Any) -> SchemaMark:
    extra = {name.replace("_", "-"): value for name, value in words.items()}
    return SchemaMark(lambda schema: schema.update(extra))


def list_map(*keys: str) -> SchemaMark:
    """Mark a list whose items are identified by these fields, at least one, as they are named in JSON."""
    if not keys:
        raise ValueError("a list-map needs at least one key")
    return _with(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=list(keys))


def list_set() -> SchemaMark:
    """Mark a list of scalars without duplicates."""
    return _with(x_kubernetes_list_type="set")


def atomic_list() -> SchemaMark:
    """Mark a list that server-side apply replaces as a whole."""
    return _with(x_kubernetes_list_type="atomic")


def atomic_map() -> SchemaMark:
    """Mark a map or an object that server-side apply replaces as a whole."""
    return _with(x_kubernetes_map_type="atomic")


def granular_map() -> SchemaMark:
    """Mark a map whose keys server-side apply merges, each with its own owner; this is the default."""
    return _with(x_kubernetes_map_type="granular")


def preserve_unknown() -> SchemaMark:
    """Keep fields that the schema does not name, as in `dict[str, Any]`; otherwise the server drops them."""
    return _with(x_kubernetes_preserve_unknown_fields=True)


def required() -> SchemaMark:
    """Clients must send the field, although code may leave it out because the runtime fills it in."""
    return SchemaMark(lambda schema: schema.update({REQUIRED: True}))


def server_default(value: Any) -> SchemaMark:
    """Mark a default that only the server fills in: code that does not set the field does not send it.

    Unlike `= value`, it does not make an applied object claim the field: `Annotated[str | None,
    server_default("TCP")] = None`.
    """
    return SchemaMark(lambda schema: schema.update({SERVER_DEFAULT: value}))


def together(*marks: SchemaMark) -> SchemaMark:
    """Several marks of a whole model, whose `json_schema_extra` takes one."""

    def change(schema: JsonSchema) -> None:
        for mark in marks:
            mark.change(schema)

    return SchemaMark(change)


def schema_format(name: str) -> SchemaMark:
    """Set a `format` that pydantic does not set by itself, such as `int32`."""
    return _with(format=name)


def schema_pattern(pattern: str) -> SchemaMark:
    """Set a `pattern` that only the server checks, so that code can read objects stored before the pattern.

    The server answers a wrong value with the pattern itself. For a message in words, use `cel`.
    """
    return _with(pattern=pattern)


def schema_words(**words: Any) -> SchemaMark:
    """Keywords of the schema that no other mark sets: `schema_words(nullable=True, minProperties=1)`.

    An underscore is a hyphen: `x_kubernetes_embedded_resource=True`.
    """
    return _with(**words)


def cel(
    rule: str,
    message: str = "",
    *,
    field_path: str | None = None,
    reason: str | None = None,
    message_expression: str | None = None,
    optional_old_self: bool = False,
) -> SchemaMark:
    """Add a CEL rule; in it `self` is the value, and `oldSelf` the value before an update.

    The user reads `message` when a value breaks the rule. `field_path` names the field at fault, relative to
    the value (`.size`). `reason` is one of FieldValueInvalid (the default), FieldValueForbidden,
    FieldValueRequired and FieldValueDuplicate. The server checks several rules in the order they are written.
    `message_expression` is CEL that makes the message. With `optional_old_self` the rule also holds for new
    values, and `oldSelf` is an optional.
    """
    said = {
        "rule": rule,
        "message": message or None,
        "fieldPath": field_path,
        "reason": reason,
        "messageExpression": message_expression,
        "optionalOldSelf": optional_old_self or None,
    }
    validation = {word: value for word, value in said.items() if value is not None}

    def add(schema: JsonSchema) -> None:
        schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), validation]

    return SchemaMark(add)


# Number types of the API that JSON Schema alone does not tell apart.
def _int_or_string(schema: dict[str, object]) -> None:
    schema.pop("anyOf", None)
    schema["x-kubernetes-int-or-string"] = True


_DIGITS = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
# The pattern of controller-gen.
QUANTITY = rf"^(\+|-)?{_DIGITS}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DIGITS}))?$"

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), schema_format("int32")]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), schema_format("int64")]
# A count or a name or a percentage, as in `targetPort: http` and `maxSurge: 25%`.
IntOrString = Annotated[int | str, SchemaMark(_int_or_string)]
# An amount, as in `cpu: 500m` and `memory: 1Gi`; `manager_kinds.quantity` calculates with it.
Quantity = Annotated[int | str, SchemaMark(_int_or_string), schema_pattern(QUANTITY)]
