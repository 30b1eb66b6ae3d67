"""What exactly is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypedDict, Unpack

from manager.api import GroupVersionKind, Resource
from manager.cache.selector import Selector

__all__ = ["WHOLE", "CacheOptions", "Selection", "SelectionOptions", "WatchSpec"]


class SelectionOptions(TypedDict, total=False):
    """Which objects of a kind are cached; default all.

    `label_selector`: only those with matching labels, as kubectl writes it. An object that a write of ours
    takes out of the selection is gone from the cache at once.

    `field_selector`: only those with matching fields, as kubectl writes it. Which fields there are is the
    server's affair, so an object that we create ourselves appears only when the watch brings it: reading
    one's own writes is limited to objects already cached.

    `namespaces`: only those in these namespaces, "" for all, instead of those of `CacheOptions`. Without
    meaning for a cluster-scoped kind.
    """

    label_selector: str
    field_selector: str
    namespaces: Sequence[str]


class Selection(NamedTuple):
    """A `SelectionOptions` to be compared: what selects the same is equal."""

    label_selector: str = ""
    field_selector: str = ""
    namespaces: tuple[str, ...] = ()

    @classmethod
    def of(cls, **options: Unpack[SelectionOptions]) -> Self:
        """Raises ValueError for a bad label selector, and TypeError for a bare name as the namespaces."""
        if isinstance(options.get("namespaces"), str):
            raise TypeError(f"namespaces are a sequence of names, not {options['namespaces']!r}")
        requirements = Selector.parse(options.get("label_selector", "")).requirements
        namespaces = set(options.get("namespaces", ()))
        return cls(
            ",".join(sorted(dict.fromkeys(map(str, requirements)))),
            options.get("field_selector", ""),
            ("",) if "" in namespaces else tuple(sorted(namespaces)),
        )

    def __str__(self) -> str:
        """As the arguments that it is asked for with."""
        named = zip(self._fields, self, strict=True)
        return ", ".join(f"{name}={value!r}" for name, value in named if value)


WHOLE = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How kinds are cached.

    Attributes:
        namespaces: the namespaces to watch, with one watch per kind and namespace; none (the default), or ""
            among them, means all, with one watch per kind.
    """

    namespaces: tuple[str, ...] = ()


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
    def of(
        cls,
        kind: type[Resource],
        options: CacheOptions,
        *,
        metadata_only: bool = False,
        selection: Selection = WHOLE,
    ) -> WatchSpec:
        """Work out what is to be watched of a kind."""
        namespaces = selection.namespaces or options.namespaces
        if not kind.namespaced or not namespaces or "" in namespaces:
            namespaces = ("",)
        return cls(
            gvk=kind.gvk,
            plural=kind.plural,
            metadata_only=metadata_only,
            namespaces=tuple(dict.fromkeys(namespaces)),
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
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
