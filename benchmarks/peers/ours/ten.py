"""Ten controllers on one kind, which each look at their object and do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apis.cache.v1.memcached import Memcached
from manager.controller import ControllerBuilder

if TYPE_CHECKING:
    from manager.client import Client
    from manager.controller import ControllerOptions, Request, Result
    from manager.manager import Manager

COUNT = 10
KINDS = (Memcached,)


class Look:
    """Reads its object from the cache."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def reconcile(self, request: Request) -> Result | None:
        """Nothing is made of it."""
        await self.client.find(Memcached, request)
        return None


RECONCILERS = (Look,)


def setup(manager: Manager, options: ControllerOptions) -> None:
    """c0 to c9."""
    for index in range(COUNT):
        builder = ControllerBuilder(manager, Memcached).named(f"c{index}")
        builder.options(options).complete(Look(manager.client.named(f"c{index}")))
