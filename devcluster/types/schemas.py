"""Schemas of the built-in types, built on demand, node by node."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from devcluster.schema.lazy import LazyMapping
from devcluster.schema.node import UNSET, Schema
from devcluster.types import table

_REF = "#/components/schemas/"
_RAW = frozenset({"FieldsV1", "JSON", "RawExtension"})


def schema_for(group: str, version: str, kind: str) -> Schema:
    """Return the schema of a built-in kind; raise KeyError if the kind is not built in."""
    name = table.name_of(group, version, kind)
    if name is None:
        raise KeyError((group, version, kind))
    return schema_of(name)


@functools.cache
def schema_of(openapi_name: str) -> Schema:
    """Return the schema of a type such as `io.k8s.api.apps.v1.Deployment`; raise KeyError if unknown."""
    schema = _node(table.entries()[openapi_name]["schema"])
    go = table.go_type(openapi_name)
    if schema.required and isinstance(go, list):
        omitted = {name for name, _, omission, _ in go if omission}
        schema.required = tuple(name for name in schema.required if name not in omitted)
    schema.openapi_name = openapi_name
    schema.type_name = openapi_name.rpartition(".")[2]
    schema.preserve_unknown = schema.type_name in _RAW
    return schema


def _node(raw: dict[str, Any]) -> Schema:
    if reference := _reference(raw):
        target = schema_of(reference)
        own = _facts(raw)
        return dataclasses.replace(target, **own) if own else target
    schema = Schema(type=raw.get("type", ""), format=raw.get("format", ""), **_facts(raw))
    schema.int_or_string = schema.format == "int-or-string"
    schema.required = tuple(raw.get("required", ()))
    if "properties" in raw:
        schema.properties = LazyMapping(raw["properties"], _node)
    if "items" in raw:
        schema.items = _node(raw["items"])
    if isinstance(raw.get("additionalProperties"), dict):
        schema.additional = _node(raw["additionalProperties"])
    return schema


def _reference(raw: dict[str, Any]) -> str:
    reference: str = raw.get("$ref", "")
    if not reference and (parts := raw.get("allOf")):
        reference = parts[0].get("$ref", "")
    return reference.removeprefix(_REF)


def _facts(raw: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if (default := raw.get("default", UNSET)) is not UNSET:
        facts["default"] = default
    if "enum" in raw:
        facts["enum"] = tuple(raw["enum"])
    if list_type := raw.get("x-kubernetes-list-type"):
        facts["list_type"] = list_type
    if keys := raw.get("x-kubernetes-list-map-keys"):
        facts["list_map_keys"] = tuple(keys)
    if map_type := raw.get("x-kubernetes-map-type"):
        facts["map_type"] = map_type
    if strategy := raw.get("x-kubernetes-patch-strategy"):
        facts["patch_strategies"] = tuple(strategy.split(","))
    if key := raw.get("x-kubernetes-patch-merge-key"):
        facts["patch_merge_key"] = key
    return facts
