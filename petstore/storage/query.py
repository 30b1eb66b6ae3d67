"""Search queries, and reading their results page by page."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from petstore.pet import Pet, PetType

__all__ = ["Query", "read_page"]

_SPAN = 20_000
"""Pets that are examined per page, in some ten milliseconds; then other calls get their turn."""

_COLUMNS = "seq, id, name, type, birthday, idempotency_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query for pets that match one value of each non-empty filter; without filters, all."""

    names: Sequence[str] = ()
    types: Sequence[PetType | None] = ()
    """None is a type that no pet has."""

    keys: Sequence[str] = ()
    """Idempotency keys."""

    born_from: datetime.date | None = None
    """Inclusive."""

    born_before: datetime.date | None = None
    """Exclusive."""


def read_page(
    database: sqlite3.Connection, query: Query, after: int, size: int
) -> tuple[list[Pet], int | None]:
    """Return up to `size` pets after `after` in the order of creation, and the start of the next page.

    The start is None after the last page. A page may be empty although others follow, because only a few pets
    are examined for each. No transaction stays open between pages, so a slow reader blocks nothing.
    Concurrent changes may show or not; pets that stay are returned once.
    """
    conditions = ["seq > ?"]
    values: list[object] = [after]
    end = None
    if not query.keys:  # an index finds each key directly
        end = after + _SPAN
        conditions.append("seq <= ?")
        values.append(end)
    # One JSON array for each list, as the number of variables in a statement is limited.
    types = [kind and kind.value for kind in query.types]
    lists = (("name", query.names), ("type", types), ("idempotency_key", query.keys))
    for column, wanted in lists:
        if wanted:
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 -- the same
            # SQLite's JSON ends a string at a NUL; no pet has one.
            values.append(json.dumps([value for value in wanted if "\0" not in (value or "")]))
    for comparison, day in ((">=", query.born_from), ("<", query.born_before)):
        if day is not None:
            conditions.append(f"birthday {comparison} ?")
            values.append(day.isoformat())
    statement = f"SELECT {_COLUMNS} FROM pets WHERE {' AND '.join(conditions)} ORDER BY seq LIMIT ?"  # noqa: S608 -- constant parts
    rows = database.execute(statement, (*values, size)).fetchall()
    pets = [
        Pet(
            id=identity,
            name=name,
            type=PetType(kind),
            birthday=datetime.date.fromisoformat(birthday),
            idempotency_key=key or "",
        )
        for _, identity, name, kind, birthday, key in rows
    ]
    if len(rows) == size:
        return pets, rows[-1][0]
    if end is None:
        return pets, None
    (following,) = database.execute("SELECT min(seq) FROM pets WHERE seq > ?", (end,)).fetchone()
    return pets, None if following is None else following - 1
