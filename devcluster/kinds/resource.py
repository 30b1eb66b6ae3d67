"""A kind as the API server serves it: its names, schema, and strategy (defaults, validation, tables)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from devcluster.errors import qualified
from devcluster.kinds.strategy import Strategy
from devcluster.schema.node import Schema
from devcluster.schema.versions import CustomVersions
from devcluster.storage.records import Stored


class Converted:
    """Cache of objects converted to one version, as JSON; an entry lives as long as the stored object.

    A changed CustomResourceDefinition gets a new cache, because its schemas may have changed.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Stored, bytes] = weakref.WeakKeyDictionary()
        self._under_way: dict[Stored, asyncio.Future[None]] = {}

    def get(self, stored: Stored) -> bytes | None:
        return self._known.get(stored)

    def put(self, stored: Stored, data: bytes) -> None:
        self._known[stored] = data

    async def others(self, items: Sequence[Stored]) -> None:
        """Wait until no other task converts any of `items`; `get` then returns what was converted."""
        while True:
            waiting = {self._under_way[each] for each in items if each in self._under_way}
            if not waiting:
                return
            await asyncio.wait(waiting)

    @contextlib.contextmanager
    def converting(self, items: Sequence[Stored]) -> Iterator[None]:
        """Mark `items` as being converted, so that other tasks wait instead of converting them too."""
        done = asyncio.get_running_loop().create_future()
        for each in items:
            self._under_way[each] = done
        try:
            yield
        finally:
            for each in items:
                del self._under_way[each]
            done.set_result(None)


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Convert = Callable[[list[dict[str, Any]], str], Awaitable[list[dict[str, Any]]]]
"""A function that converts objects of any served version (each has its `apiVersion`) to the named version."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """Column of `kubectl get`; a column with a `priority` above 0 is only shown with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""
    """The JSON path of the cell, for custom kinds; built-in kinds compute their rows (`Strategy.row`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePaths:
    """JSON paths, such as `.spec.replicas`, of the fields that a custom kind's scale subresource uses."""

    spec: str
    status: str
    selector: str = ""


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Resource:
    """Resource in one version.

    All versions of a resource share `group`, `plural` and the stored objects, whose version is
    `storage_version`.
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
    """All table columns of a built-in kind, or the columns after `Name` of a custom kind.

    An empty tuple means `Name` and `Age`.
    """
    subresources: tuple[str, ...] = ()
    """`status`, `scale`, and for some built-in kinds others, such as `log`, `binding` and `token`."""
    scale: ScalePaths | None = None
    storage_version: str
    store_as: tuple[str, str] | None = None
    """(group, plural) of another resource under which the objects are stored: Events have two groups."""
    shows: Callable[[Stored], bool] | None = None
    """Whether an object of `store_as` belongs to this resource too; None if all objects do."""
    convert: Convert | None = None
    """The conversion between versions; None if there is one version, or only `apiVersion` differs."""
    custom: bool = False
    """Whether a CustomResourceDefinition defines the resource."""
    closing: bool = False
    """Whether the definition is being deleted: no object can be created, and discovery does not show the
    verbs create, patch and update.
    """
    deprecation: str = ""
    """The warning for each request; empty if the version is not deprecated."""
    selectable_fields: tuple[str, ...] = ()
    """Fields that the field selectors of a custom kind may name, besides metadata.name and
    metadata.namespace; for built-in kinds, `Strategy.fields` returns them.
    """
    schemas: Mapping[str, Schema] = dataclasses.field(default_factory=dict)
    """The schemas of all served versions by `apiVersion`; the registry maintains them."""
    custom_versions: CustomVersions | None = None
    """Pruning and defaulting by version, for custom kinds."""
    converted: Converted = dataclasses.field(default_factory=Converted)
    """Cached objects in this version, for objects stored in another one."""

    @property
    def api_version(self) -> str:
        """Group and version of the resource: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_api_version(self) -> str:
        """Return the apiVersion in which the store keeps the objects."""
        return f"{self.group}/{self.storage_version}" if self.group else self.storage_version

    @property
    def stored(self) -> tuple[str, str]:
        """First two elements of the objects' keys in the store: (group, plural)."""
        return self.store_as or (self.group, self.plural)

    @property
    def name(self) -> str:
        """Qualified name of the resource: `deployments.apps`, or `pods` in the core group."""
        return qualified(self.group, self.plural)

    @property
    def paths(self) -> Sequence[str]:
        """URL paths of the objects; the path for all namespaces is the first one."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if not self.namespaced:
            return [f"{base}/{self.plural}"]
        return [f"{base}/{self.plural}", f"{base}/namespaces/{{namespace}}/{self.plural}"]
