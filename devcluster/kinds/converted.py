"""A cache of objects in other versions than their storage version, like the API server's watch cache."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devcluster.storage.records import Stored

__all__ = ["Converted"]


class Converted:
    """The JSON of objects in one version of their kind, each for as long as the store keeps the object.

    A definition that changes gives its versions new ones, so nothing outlives the rules it was made by.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Stored, bytes] = weakref.WeakKeyDictionary()
        self._under_way: dict[Stored, asyncio.Future[None]] = {}

    def get(self, stored: Stored) -> bytes | None:
        """Return the cached JSON, or None."""
        return self._known.get(stored)

    def put(self, stored: Stored, data: bytes) -> None:
        """Cache the JSON."""
        self._known[stored] = data

    async def others(self, items: Sequence[Stored]) -> None:
        """Wait until no other task converts any of `items`; `get` then has their results."""
        while True:
            waiting = {self._under_way[each] for each in items if each in self._under_way}
            if not waiting:
                return
            await asyncio.wait(waiting)

    @contextlib.contextmanager
    def converting(self, items: Sequence[Stored]) -> Iterator[None]:
        """Mark `items` as being converted, so that other tasks wait for the result."""
        done = asyncio.get_running_loop().create_future()
        for each in items:
            self._under_way[each] = done
        try:
            yield
        finally:
            for each in items:
                del self._under_way[each]
            done.set_result(None)
