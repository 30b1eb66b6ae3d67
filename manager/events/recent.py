"""A memory of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Remembers values by key; beyond `capacity`, forgets the one that was not asked for longest.

    None is no value.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get_or_add(self, key: K, create: Callable[[], V]) -> V:
        """Return the value of `key`, made by `create` when there is none."""
        values = self._values
        known = values.get(key)
        if known is not None:
            values.move_to_end(key)
            return known
        added = values[key] = create()
        if len(values) > self._capacity:
            values.popitem(last=False)
        return added
