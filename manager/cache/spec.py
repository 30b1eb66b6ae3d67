"""What exactly is watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from manager.api import GroupVersionKind, Resource
from manager.cache.selector import Selector

__all__ = ["CacheOptions", "KindOptions", "WatchSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """How one kind is cached.

    Attributes:
        namespaces: the namespaces to watch, instead of those of `CacheOptions`; None (the default) takes
            those. Without meaning for a cluster-scoped kind.
        label_selector: only objects with matching labels, as kubectl writes it; default all. An object that
            a write of ours takes out of the selection is gone from the cache at once.
        field_selector: only objects with matching fields, as kubectl writes it; default all. Which fields
            there are is the server's affair, so an object that we create ourselves appears only when the
            watch brings it: reading one's own writes is limited to objects already cached.
        transform: gets the JSON that would be kept and returns what is kept instead, to drop what nobody
            reads. It must leave alone the name, namespace, uid, resourceVersion and the labels that
            selectors look at. Danger: what it drops is missing from objects that are read, so writing such
            an object back whole (`client.update`) removes it on the server.
    """

    namespaces: tuple[str, ...] | None = None
    label_selector: str = ""
    field_selector: str = ""
    transform: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How kinds are cached.

    Attributes:
        namespaces: the namespaces to watch, with one watch per kind and namespace; none (the default), or ""
            among them, means all, with one watch per kind.
        by_kind: what differs for some kinds; it takes precedence.
    """

    namespaces: tuple[str, ...] = ()
    by_kind: Mapping[type[Resource], KindOptions] = field(default_factory=dict)

    def of(self, kind: type[Resource]) -> KindOptions:
        """Return the options of a kind; two models of the same kind share them."""
        for known, options in self.by_kind.items():
            if known.gvk == kind.gvk:
                return options
        return KindOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """A kind, how much of each object, and which objects.

    `namespaces` holds "" alone for all namespaces, else one watch runs for each.
    """

    gvk: GroupVersionKind
    plural: str
    metadata_only: bool = False
    namespaces: tuple[str, ...] = ("",)
    label_selector: str = ""
    field_selector: str = ""

    @classmethod
    def of(cls, kind: type[Resource], options: CacheOptions, *, metadata_only: bool = False) -> WatchSpec:
        """Work out what the options mean for a kind; raises ValueError for a bad label selector."""
        own = options.of(kind)
        namespaces = options.namespaces if own.namespaces is None else own.namespaces
        if not kind.namespaced or not namespaces or "" in namespaces:
            namespaces = ("",)
        return cls(
            gvk=kind.gvk,
            plural=kind.plural,
            metadata_only=metadata_only,
            namespaces=tuple(dict.fromkeys(namespaces)),
            label_selector=str(Selector.parse(own.label_selector)),
            field_selector=own.field_selector,
        )

    @property
    def resource(self) -> str:
        """How people name the kind: `pods`, `memcacheds.cache.example.com`."""
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural

    @property
    def projection(self) -> str:
        """How much of each object is kept: `full` or `metadata`."""
        return "metadata" if self.metadata_only else "full"

    def covers(self, namespace: str) -> bool:
        """True when objects of that namespace are watched."""
        return self.namespaces == ("",) or namespace in self.namespaces
