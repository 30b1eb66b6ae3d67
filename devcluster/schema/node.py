"""The schema of a field, for built-in kinds and custom kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["UNSET", "Schema"]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""No default, where None would be one."""


@dataclasses.dataclass(slots=True, eq=False)
class Schema:
    """A node of a schema; a kind's root node is the whole object with its `metadata`.

    `type` is the JSON type (`object`, `array`, `string`, `integer`, `number`, `boolean`), empty for any type.
    By the rules of structured-merge-diff, lists are atomic and objects granular, unless `list_type` or
    `map_type` says otherwise. A type that contains itself is a cycle of nodes.
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
    """`atomic`, `set`, `map`, or nothing said."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    """`granular`, `atomic`, or nothing said."""
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
