"""A model's JSON schema as pydantic sees it, with references inlined and its docstrings as descriptions.

The docstrings of attributes are read from the source only when a CustomResourceDefinition is generated.
Pydantic would read them at each model's import, so that every start of the manager would parse sources that
only the command `crds` needs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import math
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from manager.api import Resource
from manager.api.model import UNCHECKED_PATTERN


class ModelError(Exception):
    """A model that a CustomResourceDefinition cannot express; the message names the field."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


# Lines that must stay separate: list items, and indented lines.
_OWN_LINE = re.compile(r"\s|[-*] |\d+\. ")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph, which the source code has wrapped; keep lists as they are.

    `kubectl explain` wraps lines to the terminal's width, and would wrap the source's short lines again.
    """
    joined: list[str] = []
    open_paragraph = False
    for line in inspect.cleandoc(text).splitlines():
        stripped = line.rstrip()
        if open_paragraph and stripped and not _OWN_LINE.match(stripped):
            joined[-1] += " " + stripped
        else:
            joined.append(stripped)
        open_paragraph = bool(stripped)
    return "\n".join(joined)


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of fields by field name, including those of inherited fields."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= _own_docs(base)
    return docs


def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    try:
        classes = _classes(inspect.getsource(sys.modules[model.__module__]))
        definition = classes[model.__qualname__]
    except (OSError, TypeError, KeyError):
        return {}  # the class was created at run time, or its source is not installed
    return {
        attribute.target.id: inspect.cleandoc(below.value.value)
        for attribute, below in itertools.pairwise(definition.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


@functools.lru_cache(maxsize=64)
def _classes(source: str) -> dict[str, ast.ClassDef]:
    """Return a module's classes by qualified name; the cache saves parsing for each model of the module."""
    found: dict[str, ast.ClassDef] = {}

    def walk(node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.ClassDef():
                    found[within + child.name] = child
                    walk(child, f"{within}{child.name}.")
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    walk(child, f"{within}{child.name}.<locals>.")
                case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                    walk(child, within)

    walk(ast.parse(source), "")
    return found


JsonSchema = dict[str, Any]

# Pydantic's explanation if a type has no JSON schema; a caller that knows the field adds the field's name.
INEXPRESSIBLE = "x-inexpressible"

_DEFINITION = "#/$defs/"
_RULES = "x-kubernetes-validations"


class _Generator(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        if issubclass(schema["cls"], Resource):
            # In an embedded object, such as a claim in a StatefulSet, `apiVersion` and `kind` are optional.
            for name in ("apiVersion", "kind"):
                described["properties"][name].pop("default", None)
        docs = attribute_docs(schema["cls"])
        for name, field in schema["cls"].model_fields.items():
            on_wire = field.validation_alias if isinstance(field.validation_alias, str) else name
            if name in docs and on_wire in described["properties"]:
                described["properties"][on_wire].setdefault("description", docs[name])
        return described

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        described = super().str_schema(schema)
        pattern = schema.get("metadata", {}).get(UNCHECKED_PATTERN)
        return described if pattern is None else {**described, "pattern": pattern}

    def encode_default(self, dft: Any) -> Any:
        # Pydantic would write null for infinite numbers and NaN, which JSON lacks.
        odd = next(_not_finite(dft), None)
        return super().encode_default(dft) if odd is None else odd

    def handle_invalid_for_json_schema(
        self,
        schema: core_schema.CoreSchema,  # noqa: ARG002 - pydantic defines the signature
        error_info: str,
    ) -> JsonSchemaValue:
        return {INEXPRESSIBLE: error_info}

    def emit_warning(
        self,
        kind: JsonSchemaWarningKind,  # noqa: ARG002 - pydantic defines the signature
        detail: str,
    ) -> NoReturn:
        # Without this error, pydantic would omit the default, and API server and Python code would use
        # different values.
        raise ValueError(detail)


def _not_finite(value: Any) -> Iterator[float]:
    if isinstance(value, float) and not math.isfinite(value):
        yield value
    within: Iterable[Any] = ()
    if isinstance(value, BaseModel | dict):
        within = (each for _, each in value) if isinstance(value, BaseModel) else value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        within = value
    for each in within:
        yield from _not_finite(each)


def model_schema(model: type[BaseModel]) -> JsonSchema:
    """Return the schema of the JSON that the model reads, with JSON names and without any `$ref`.

    Raises ModelError when a model contains itself, or a default has no JSON form.
    """
    try:
        schema = model.model_json_schema(schema_generator=_Generator)
    except ValueError as error:
        raise ModelError(model.__name__, str(error)) from error
    except KeyError as error:  # a `$ref` that the author has written
        raise ModelError(model.__name__, f"there is no schema {error}") from error
    definitions = schema.pop("$defs", {})
    inlined: JsonSchema = _inline(schema, definitions, model.__name__, ())
    return inlined


def overlaid(of_type: JsonSchema, of_field: JsonSchema) -> JsonSchema:
    """Merge the schemas of a type and of its field; in a conflict, the field's keyword applies.

    The validation rules of both schemas are kept.
    """
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
