"""A model's JSON schema as pydantic sees it, with references inlined and its docstrings as descriptions.

The docstrings of attributes are read from the source, when definitions are made. Pydantic would do it for
every model at import, and with it every start of the manager would read and parse what only the command
`crds` prints.
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
    """A model says something that its custom resource definition cannot; the message names the field."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


# Lines that stand for themselves: list items, and what is indented under something.
_OWN_LINE = re.compile(r"\s|[-*] |\d+\. ")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph, which source code breaks at its own width; keep lists as they are.

    `kubectl explain` breaks long lines to the terminal, and would break short ones a second time.
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
    """Return the docstring of each field that has one, inherited fields included."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= _own_docs(base)
    return docs


def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the attributes in the body of this very class."""
    try:
        classes = _classes(inspect.getsource(sys.modules[model.__module__]))
        definition = classes[model.__qualname__]
    except (OSError, TypeError, KeyError):
        return {}  # made at run time, or by a program that came without its source
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
    """Return a module's classes by their qualified names; a module is parsed once for all its models."""
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

# Where pydantic has no JSON schema for a type: its explanation, for the walk that knows the field's name.
INEXPRESSIBLE = "x-inexpressible"

_DEFINITION = "#/$defs/"
_RULES = "x-kubernetes-validations"


class _Generator(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        if issubclass(schema["cls"], Resource):
            # In another object, as a claim in a StatefulSet, a kind may say what it is, or not.
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
        # Pydantic would write null for a number that JSON does not have.
        odd = next(_not_finite(dft), None)
        return super().encode_default(dft) if odd is None else odd

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


def _not_finite(value: Any) -> Iterator[float]:
    """Find the numbers within a default that JSON does not have."""
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
    """Return the schema of what the model reads, by its names on the wire, without any `$ref`.

    Raises ModelError when a model contains itself, or a default has no JSON form.
    """
    try:
        schema = model.model_json_schema(schema_generator=_Generator)
    except ValueError as error:
        raise ModelError(model.__name__, str(error)) from error
    except KeyError as error:  # the author's own `$ref`
        raise ModelError(model.__name__, f"there is no schema {error}") from error
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
