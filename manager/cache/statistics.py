"""The state of the caches in numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CacheStatistics", "InformerStatistics"]


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """One shared watch.

    Attributes:
        resource: the kind as people name it, such as `memcacheds.cache.example.com`.
        projection: `full` or `metadata`.
        synced: whether a first list of everything is complete.
        problem: why it does not follow the server, or None.
        objects: how many objects are held.
        bytes: the JSON of these objects; what is around it comes on top, some 500 bytes an object.
        subscribers: how many handlers are told of changes.
        watches: what each of its watches is doing, by namespace ("" for all).
    """

    resource: str
    projection: str
    synced: bool
    problem: str | None
    objects: int
    bytes: int
    subscribers: int
    watches: dict[str, str]


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """All shared watches of the process."""

    informers: tuple[InformerStatistics, ...]

    @property
    def objects(self) -> int:
        """How many objects are held in all."""
        return sum(informer.objects for informer in self.informers)

    @property
    def bytes(self) -> int:
        """Bytes of JSON held in all."""
        return sum(informer.bytes for informer in self.informers)
