"""What is done for an owner only for as long as it is there, and not going: it could not be taken back."""

from __future__ import annotations

from typing import TypeVar

from manager.api import Resource, controller_reference
from manager.client import Client

__all__ = ["NotWanted", "adopt", "check_still_wanted"]

R = TypeVar("R", bound=Resource)


class NotWanted(Exception):
    """The owner is being deleted, or gone already. The cache is about to hear of it."""


async def check_still_wanted(client: Client, owner: Resource) -> None:
    """Return if the API server, too, has the owner; raises NotWanted when it has not, or not for long.

    To be asked before anything that is there already gets an owner. What belonged to an object that is
    deleted with `--cascade=orphan` loses its owner so that it stays; given it back, it would go too. And
    before anything is made that has no owner, or cannot be undone: the cache may be behind, and nobody else
    would remove it.
    """
    live = await client.uncached.find(type(owner), owner.key)
    if (
        live is None
        or live.metadata.uid != owner.metadata.uid
        or live.metadata.deletion_timestamp is not None
    ):
        raise NotWanted


async def adopt(client: Client, child: R, *, owner: Resource) -> None:
    """Make `owner` the controller of a child that has none; raises NotWanted, and as `Client.patch`."""
    await check_still_wanted(client, owner)
    adopted = child.model_copy(deep=True)
    adopted.metadata.owner_references.append(controller_reference(owner, adopted.metadata))
    await client.patch(adopted)
