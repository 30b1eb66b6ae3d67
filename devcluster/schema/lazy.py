"""Mapping whose values are created on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class LazyMapping(Mapping[str, T]):
    """Mapping that creates each value from its source at the first access, because types may be recursive."""

    __slots__ = ("_made", "_make", "_sources")

    def __init__(self, sources: Mapping[str, Any], make: Callable[[Any], T]) -> None:
        self._sources = sources
        self._make = make
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(self._sources[name])
        return made

    def get(self, name: str, default: Any = None) -> Any:
        made = self._made.get(name)
        if made is not None:
            return made
        return self[name] if name in self._sources else default

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
