"""Schema annotations for rules that a field's type cannot express.

Each function returns a value for `Annotated`, or, for a whole model, for `ConfigDict(json_schema_extra=...)`:

    conditions: Annotated[list[Condition], list_map("type"), cel("size(self) < 9", "too many conditions")]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

JsonSchema = dict[str, Any]

# Not a keyword of the server: tells the generator to list the field as required.
REQUIRED = "x-required"
# Not a keyword of the server: the default of a field that is None in the model.
SERVER_DEFAULT = "x-server-default"


@dataclass(frozen=True, slots=True)
class SchemaMark:
    """A change of the JSON schema of an annotated type; it costs nothing until a schema is generated."""

    change: Callable[[JsonSchema], None]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        # Copy it: other users of the referenced definition must not see the change.
        schema = dict(handler(core))
        self.change(schema)
        return schema

    def __call__(self, schema: JsonSchema) -> None:
        """Apply the change to the schema of a whole model."""
        self.change(schema)


def _with(**words: Any) -> SchemaMark:
    extra = {name.replace("_", "-"): value for name, value in words.items()}
    return SchemaMark(lambda schema: schema.update(extra))


def list_map(*keys: str) -> SchemaMark:
    """Declare a list whose items are identified by the fields `keys`, one or more names in JSON."""
    if not keys:
        raise ValueError("a list-map needs at least one key")
    return _with(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=list(keys))


def list_set() -> SchemaMark:
    """Declare a list of scalars without duplicates."""
    return _with(x_kubernetes_list_type="set")


def atomic_list() -> SchemaMark:
    """Declare a list that server-side apply replaces as a whole."""
    return _with(x_kubernetes_list_type="atomic")


def atomic_map() -> SchemaMark:
    """Declare a map or object that server-side apply replaces as a whole."""
    return _with(x_kubernetes_map_type="atomic")


def granular_map() -> SchemaMark:
    """Declare a map whose keys server-side apply merges, each with its own owner; this is the default."""
    return _with(x_kubernetes_map_type="granular")


def preserve_unknown() -> SchemaMark:
    """Make the server keep fields that the schema does not name, instead of dropping them."""
    return _with(x_kubernetes_preserve_unknown_fields=True)


def required() -> SchemaMark:
    """Require the field in the schema; Python code may omit it, because the model fills it in."""
    return SchemaMark(lambda schema: schema.update({REQUIRED: True}))


def server_default(value: Any) -> SchemaMark:
    """Set a default that only the server fills in: code sends the field only if it sets the field itself.

    With `= value` instead, an apply would own the field. Example: `Annotated[str | None,
    server_default("TCP")] = None`.
    """
    return SchemaMark(lambda schema: schema.update({SERVER_DEFAULT: value}))


def together(*marks: SchemaMark) -> SchemaMark:
    """Combine several changes for the single `json_schema_extra` of a model."""

    def change(schema: JsonSchema) -> None:
        for mark in marks:
            mark.change(schema)

    return SchemaMark(change)


def schema_format(name: str) -> SchemaMark:
    """Set a `format` that pydantic itself does not set, such as `int32`."""
    return _with(format=name)


def schema_pattern(pattern: str) -> SchemaMark:
    """Set a `pattern` that only the server checks, so that code can still read older stored objects.

    The server's error quotes the pattern. For a message in words, use `cel`.
    """
    return _with(pattern=pattern)


def schema_words(**words: Any) -> SchemaMark:
    """Set keywords for which this module has no function: `schema_words(nullable=True, minProperties=1)`.

    An underscore stands for a hyphen: `x_kubernetes_embedded_resource=True`.
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
    """Add a CEL rule, in which `self` is the value, and `oldSelf` the value before an update.

    The user reads `message` when a value breaks the rule. `field_path` names the invalid field, relative to
    the value (`.size`). `reason` is one of FieldValueInvalid (the default), FieldValueForbidden,
    FieldValueRequired and FieldValueDuplicate. The server checks several rules in the order of the code.
    `message_expression` is CEL that returns the message. With `optional_old_self`, the rule also applies to
    new values, and `oldSelf` is an optional value.
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


# Number types of the API that JSON Schema alone cannot distinguish.
def _int_or_string(schema: dict[str, object]) -> None:
    schema.pop("anyOf", None)
    schema["x-kubernetes-int-or-string"] = True


_DIGITS = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
# The same pattern as in controller-gen.
QUANTITY = rf"^(\+|-)?{_DIGITS}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DIGITS}))?$"

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), schema_format("int32")]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), schema_format("int64")]
# A number or a name or a percentage, as in `targetPort: http` and `maxSurge: 25%`.
IntOrString = Annotated[int | str, SchemaMark(_int_or_string)]
# A quantity, as in `cpu: 500m` and `memory: 1Gi`; `manager_kinds.quantity` calculates with it.
Quantity = Annotated[int | str, SchemaMark(_int_or_string), schema_pattern(QUANTITY)]
