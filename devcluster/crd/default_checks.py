"""A check that the defaults in a schema are valid by the schema."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from devcluster.crd.embedded import check_embedded
from devcluster.errors import FieldError, field_invalid
from devcluster.schema.cel import CompileError
from devcluster.schema.node import UNSET, Schema
from devcluster.schema.pruning import prune
from devcluster.schema.rules import MessageError, WrongResult, compile_rules
from devcluster.schema.structural import parse
from devcluster.schema.validation import Validator

__all__ = ["check_defaults"]

_META = frozenset({"metadata", "kind", "apiVersion"})


def check_defaults(source: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors in the defaults of the schema at `path`."""
    return list(_below(parse(source), path, root=True, inside_meta=False))


def _below(schema: Schema, path: str, *, root: bool, inside_meta: bool) -> Iterator[FieldError]:
    embedded = root or schema.embedded
    inside_meta = inside_meta and not schema.embedded
    if schema.default is not UNSET and not inside_meta:
        yield from _check(schema, f"{path}.default")
    # additionalProperties are not visited: their values are checked when they are used.
    if schema.items is not None:
        yield from _below(schema.items, f"{path}.items", root=False, inside_meta=inside_meta)
    for name, each in schema.properties.items():
        meta = inside_meta or (embedded and name in _META)
        yield from _below(each, f"{path}.properties[{name}]", root=False, inside_meta=meta)


def _check(schema: Schema, path: str) -> Iterator[FieldError]:
    value = copy.deepcopy(schema.default)
    if prune(value, schema, root=False):
        yield field_invalid(path, schema.default, "must not have unknown fields")
    wrong = [*Validator(schema, path).validate(schema.default), *check_embedded(schema.default, schema, path)]
    yield from wrong
    if wrong:
        return
    try:
        rules = compile_rules(schema, root=schema.embedded)
    except (CompileError, MessageError, WrongResult):
        return  # reported where the rule is
    if rules is not None:
        for each in rules.validate(schema.default).errors:
            field = path if each.field == "<nil>" else f"{path}.{each.field}"
            yield FieldError(each.reason, field, each.text)
