"""A kind as it is served: its names, its schema, its rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devcluster.errors import qualified
from devcluster.kinds.converted import Converted
from devcluster.kinds.strategy import Strategy
from devcluster.schema.node import Schema

if TYPE_CHECKING:
    from devcluster.schema.versions import CustomVersions

__all__ = ["Column", "Convert", "Resource", "ScalePaths"]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Convert = Callable[[list[dict[str, Any]], str], Awaitable[list[dict[str, Any]]]]
"""Turn objects of any served version (each says its own `apiVersion`) into those of the one named."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. `priority` above 0 is shown with `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""
    """The JSON path of the cell, for custom kinds; built-in kinds compute their rows (`Strategy.row`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePaths:
    """JSON paths such as `.spec.replicas` of the values that a custom kind's scale subresource shows."""

    spec: str
    status: str
    selector: str = ""


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Resource:
    """A resource in one version.

    The versions of a resource share `group`, `plural` and the stored objects, which are in `storage_version`.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    schema: Schema
    strategy: Strategy
    columns: tuple[Column, ...] = ()
    """Beside `Name` and `Age`, which custom kinds without columns have, all columns including those two."""
    subresources: tuple[str, ...] = ()
    """`status`, `scale`, and for some built-in kinds `log`, `binding`, `eviction`, `finalize`, `token`."""
    scale: ScalePaths | None = None
    storage_version: str
    store_as: tuple[str, str] | None = None
    """(group, plural) under which its objects are stored, if another resource's: Events have two groups."""
    convert: Convert | None = None
    """Between its versions; None when there is one, or `None` conversion (only `apiVersion` differs)."""
    custom: bool = False
    """Defined by a CustomResourceDefinition."""
    closing: bool = False
    """Whether the definition is being deleted: discovery then shows no writing verbs."""
    deprecation: str = ""
    """The warning that each request gets; empty when the version is not deprecated."""
    selectable_fields: tuple[str, ...] = ()
    """Field selectors beside metadata.name and metadata.namespace, of custom kinds; built-in ones say them by
    `Strategy.fields`."""
    schemas: Mapping[str, Schema] = dataclasses.field(default_factory=dict)
    """The schemas of all served versions by `apiVersion`; the registry maintains them."""
    custom_versions: CustomVersions | None = None
    """The version rules of a custom kind."""
    converted: Converted = dataclasses.field(default_factory=Converted)
    """Cached objects in this version, for objects stored in another one."""

    @property
    def api_version(self) -> str:
        """The apiVersion: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_api_version(self) -> str:
        """Return the apiVersion of stored objects."""
        return f"{self.group}/{self.storage_version}" if self.group else self.storage_version

    @property
    def stored(self) -> tuple[str, str]:
        """(group, plural): the first part of the objects' key in the store."""
        return self.store_as or (self.group, self.plural)

    @property
    def name(self) -> str:
        """The qualified name: `deployments.apps`, or `pods`."""
        return qualified(self.group, self.plural)

    @property
    def paths(self) -> Sequence[str]:
        """The paths of the objects, the one for all namespaces first."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if not self.namespaced:
            return [f"{base}/{self.plural}"]
        return [f"{base}/{self.plural}", f"{base}/namespaces/{{namespace}}/{self.plural}"]
