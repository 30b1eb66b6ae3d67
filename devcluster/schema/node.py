"""Structural schemas of all kinds, and their parser for CustomResourceDefinitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""The absence of a default; None would be the default null."""


@dataclasses.dataclass(slots=True, eq=False)
class Schema:
    """Node of a schema; the root node of a kind is the whole object with its `metadata`.

    `type` is the JSON type (`object`, `array`, `string`, `integer`, `number`, `boolean`), or empty for any
    type. As in structured-merge-diff, lists are atomic and objects granular, unless `list_type` or `map_type`
    says otherwise. A type that contains itself is a cycle of nodes.
    """

    type: str = ""
    format: str = ""
    properties: Mapping[str, Schema] = dataclasses.field(default_factory=dict)
    """Known fields. A schema of the built-in kinds fills it at first use."""
    items: Schema | None = None
    additional: Schema | None = None
    """The schema of the values of a map with free keys."""
    required: tuple[str, ...] = ()
    default: Any = UNSET
    enum: tuple[Any, ...] | None = None
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    """Whether unknown fields are kept (`x-kubernetes-preserve-unknown-fields`, or raw JSON)."""
    embedded: bool = False
    """`x-kubernetes-embedded-resource`."""
    list_type: str = ""
    """`atomic`, `set`, `map`, or empty if the schema does not say it."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    """`granular`, `atomic`, or empty if the schema does not say it."""
    patch_strategies: tuple[str, ...] = ()
    """`merge`, `replace`, `retainKeys`, of a strategic merge patch; built-in kinds only."""
    patch_merge_key: str = ""
    type_name: str = ""
    """The name in decoding errors, such as `DeploymentSpec`; built-in kinds only."""
    openapi_name: str = ""
    """`io.k8s.api.apps.v1.DeploymentSpec`: its component in OpenAPI; built-in kinds only."""
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The node's JSON schema, for bounds and CEL; custom kinds only."""
    merge_shape: Any = dataclasses.field(default=None, init=False, repr=False)
    """The shape that `devcluster.patch` caches for this node; it lives as long as the node."""


def parse(source: Mapping[str, Any], *, metadata: Schema | None = None) -> Schema:
    """Parse the `openAPIV3Schema` of a version.

    Args:
        source: The schema in the definition, which is already validated as structural.
        metadata: The schema of ObjectMeta. If given, the root also gets `apiVersion`, `kind` and `metadata`,
            which replace those of the definition.
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
