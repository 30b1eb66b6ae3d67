"""The store's size, and its limits."""

from __future__ import annotations

import sqlite3

from petstore.storage.errors import StoreFull

__all__ = ["Volume"]


class Volume:
    """The store's size, counted within the writing thread's transaction."""

    def __init__(self, database: sqlite3.Connection, *, max_pets: int, max_bytes: int) -> None:
        self._database = database
        self._max_pets = max_pets
        self._max_bytes = max_bytes
        self.pets = 0
        self.recount()

    def recount(self) -> None:
        """Count anew, after a transaction was given up."""
        self.pets = self._number("SELECT count(*) FROM pets")

    def require(self, *, pets: int) -> None:
        """Raise StoreFull unless there is room for `pets` more pets or, for 0, for longer texts."""
        if pets and self.pets + pets > self._max_pets:
            raise StoreFull(f"the store is full: it may have {self._max_pets} pets (--max-pets)")
        used = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        if used * self._number("PRAGMA page_size") > self._max_bytes:
            raise StoreFull(f"the store is full: it may have {self._max_bytes} bytes (--max-data-size)")

    def _number(self, statement: str) -> int:
        (value,) = self._database.execute(statement).fetchone()
        return int(value)
