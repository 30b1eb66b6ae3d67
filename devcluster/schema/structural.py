"""The parser of a CustomResourceDefinition's JSON schema into the tree of nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from devcluster.schema.node import UNSET, Schema

__all__ = ["parse"]


def parse(source: Mapping[str, Any], *, metadata: Schema | None = None) -> Schema:
    """Parse a version's `openAPIV3Schema`.

    Args:
        source: The schema of the definition; it has been found structural.
        metadata: The schema of ObjectMeta. If given, the root also gets `apiVersion`, `kind` and
            `metadata`, whatever the definition says about them.
    """
    root = _node(source)
    if metadata is None:
        return root
    properties = dict(root.properties)
    properties["apiVersion"] = Schema(type="string")
    properties["kind"] = Schema(type="string")
    properties["metadata"] = metadata
    return dataclasses.replace(root, properties=properties)


def _node(source: Mapping[str, Any]) -> Schema:
    additional = source.get("additionalProperties")
    items = source.get("items")
    embedded = bool(source.get("x-kubernetes-embedded-resource"))
    return Schema(
        type=source.get("type", ""),
        format=source.get("format", ""),
        properties={name: _node(each) for name, each in (source.get("properties") or {}).items()},
        items=_node(items) if isinstance(items, Mapping) else None,
        # `true` and `false` accept any value without a schema for its fields, so pruning removes all of them.
        additional=None
        if additional is None
        else _node(additional if isinstance(additional, Mapping) else {}),
        required=tuple(source.get("required") or ()),
        default=UNSET if source.get("default") is None else source["default"],
        enum=tuple(source["enum"]) if source.get("enum") else None,
        nullable=bool(source.get("nullable")),
        int_or_string=bool(source.get("x-kubernetes-int-or-string")),
        preserve_unknown=bool(source.get("x-kubernetes-preserve-unknown-fields")),
        embedded=embedded,
        list_type=source.get("x-kubernetes-list-type") or "",
        list_map_keys=tuple(source.get("x-kubernetes-list-map-keys") or ()),
        map_type=source.get("x-kubernetes-map-type") or "",
        source=source,
    )
