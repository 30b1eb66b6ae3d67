"""A model's JSON schema as pydantic sees it, with references inlined."""

from __future__ import annotations

from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from manager.codegen.attribute_docs import attribute_docs
from manager.codegen.errors import ModelError

__all__ = ["INEXPRESSIBLE", "JsonSchema", "model_schema", "overlaid"]

JsonSchema = dict[str, Any]

# Where pydantic has no JSON schema for a type: its explanation, for the walk that knows the field's name.
INEXPRESSIBLE = "x-inexpressible"

_DEFINITION = "#/$defs/"
_RULES = "x-kubernetes-validations"


class _Generator(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        docs = attribute_docs(schema["cls"])
        for name, field in schema["cls"].model_fields.items():
            on_wire = field.validation_alias if isinstance(field.validation_alias, str) else name
            if name in docs and on_wire in described["properties"]:
                described["properties"][on_wire].setdefault("description", docs[name])
        return described

    def handle_invalid_for_json_schema(
        self,
        schema: core_schema.CoreSchema,  # noqa: ARG002 - the signature is pydantic's
        error_info: str,
    ) -> JsonSchemaValue:
        return {INEXPRESSIBLE: error_info}

    def emit_warning(
        self,
        kind: JsonSchemaWarningKind,  # noqa: ARG002 - the signature is pydantic's
        detail: str,
    ) -> NoReturn:
        # Pydantic would leave the default out, and the server and the code would disagree about it.
        raise ValueError(detail)


def model_schema(model: type[BaseModel]) -> JsonSchema:
    """Return the schema of what the model reads, by its names on the wire, without any `$ref`.

    Raises ModelError when a model contains itself, or a default has no JSON form.
    """
    try:
        schema = model.model_json_schema(schema_generator=_Generator)
    except ValueError as error:
        raise ModelError(model.__name__, str(error)) from error
    definitions = schema.pop("$defs", {})
    inlined: JsonSchema = _inline(schema, definitions, model.__name__, ())
    return inlined


def overlaid(of_type: JsonSchema, of_field: JsonSchema) -> JsonSchema:
    """Return what a type and its field say together: the field's word wins, but the rules of both hold."""
    both = {**of_type, **of_field}
    rules = [*of_type.get(_RULES, ()), *of_field.get(_RULES, ())]
    return {**both, _RULES: rules} if rules else both


def _inline(node: Any, definitions: dict[str, JsonSchema], field: str, inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, field, inside) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return {name: _inline(value, definitions, field, inside) for name, value in node.items()}
    name = reference.removeprefix(_DEFINITION)
    if name in inside:
        raise ModelError(field, f"{name} contains itself, and a structural schema has no recursion")
    beside = {key: value for key, value in node.items() if key != "$ref"}
    target = _inline(definitions[name], definitions, field, (*inside, name))
    return overlaid(target, _inline(beside, definitions, field, inside))
