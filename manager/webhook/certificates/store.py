"""Where certificates are kept, so that they outlive a process and several can share them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from manager.webhook.certificates.material import Material

__all__ = ["Changed", "Snapshot", "Store", "StoreUnusable"]


class StoreUnusable(Exception):
    """The store cannot be read or written; one line that says what is wrong, never what is in it."""


class Changed(Exception):
    """Somebody else has written meanwhile; nothing has been written now."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a store had when it was read."""

    material: Material

    version: Any = field(repr=False)
    """Of the store's own: what it needs to tell later whether that is still there."""


class Store(Protocol):
    """Keeps one material."""

    def __str__(self) -> str:
        """Where it is, for messages."""

    async def read(self) -> Snapshot:
        """What is there now; an empty material where there is nothing.

        Raises `StoreUnusable` for what will not go away by itself, else a `KubeError`.
        """

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        """Replace what was read as a whole.

        Raises `Changed` when something else is there by now, and what `read` raises. After another error it
        may have been written all the same.
        """
