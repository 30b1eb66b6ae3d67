"""What an operator looks at beside its own kind, and what it may do: said once, read by everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from manager.api import ObjectKey, Resource
from manager.cache import WHOLE, IndexFunction, Informer, Meta, Selection
from manager.controller.predicate import Predicate

__all__ = ["Enqueue", "Owns", "Reads", "Watch"]

Enqueue: TypeAlias = Callable[[Meta, Informer], Iterable[ObjectKey]]
"""From the metadata of something that has changed to the objects to reconcile.

The second argument is the cache of the operator's own kind, to look them up in: by an index, so that it costs
the same however many there are. It is asked about an object as it was and as it is, in the event loop.
"""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What all sources have in common."""

    kind: type[Resource] = field(kw_only=False)

    metadata_only: bool = False
    """Fetch and keep only metadata, at a fraction of the cost, to be read through `client.metadata`."""

    selection: Selection = WHOLE
    """Which objects: `Selection.of(label_selector="app=web", field_selector="…", namespaces=[…])`.

    They are read through `client.selecting` with the same arguments."""

    indexes: Mapping[str, IndexFunction] = field(default_factory=dict)
    """Functions by name: `client.list(kind, index=(name, value))` finds what they gave that value for."""


@dataclass(frozen=True, kw_only=True)
class Owns(_Source):
    """A kind of children: the object that is the controller of a changed one is reconciled.

    An object whose child could not be made, since the name was taken, is reconciled when the one that has
    the name changes or goes.
    """

    on: Predicate | None = None
    """Which events of the children count; default all."""

    prune: bool = False
    """Delete the children of this kind that a reconcile has not applied, when it has succeeded."""


@dataclass(frozen=True, kw_only=True)
class Watch(_Source):
    """A kind that others own: what it has to do with our objects is told by a label, or a function.

    Raises ValueError unless exactly one of them is given.
    """

    label: str = ""
    """The label that has the name of the object to reconcile, in the namespace of what has changed."""

    enqueue: Enqueue | None = None
    on: Predicate | None = None
    """Which events count; default all."""

    def __post_init__(self) -> None:
        if bool(self.label) is (self.enqueue is not None):
            raise ValueError(f"Watch({self.kind.__name__}) needs either label or enqueue")

    def keys(self, meta: Meta, objects: Informer) -> Iterator[ObjectKey]:
        """The objects to reconcile because of one with this metadata."""
        if self.enqueue is not None:
            yield from self.enqueue(meta, objects)
        elif name := meta.labels.get(self.label):
            yield ObjectKey(meta.namespace, name)


@dataclass(frozen=True, kw_only=True)
class Reads(_Source):
    """A kind that is cached to be read; its changes ask for nothing."""
