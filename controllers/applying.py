"""Applying children in spite of what others have made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from controllers.adoption import adopt
from manager.api import Resource
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Service
from manager.client import Applied, Client, Outcome, OwnedByOther
from manager.kube.errors import Invalid

__all__ = ["apply_child"]

W = TypeVar("W", Deployment, Service)


async def apply_child(client: Client, child: W, *, owner: Resource) -> Applied[W]:
    """Bring a child to the wanted state, as `Client.apply` does, also where others have spoilt it.

    - An apply merges lists by the keys of their items: where somebody has changed a port from 80 to 8080, it
      puts 80 beside it, and the server refuses two ports of one name. Then, and only then, our lists replace
      theirs as a whole.
    - A child that was made here and has no controller any more gets its owner back.

    Raises as `Client.apply`: Invalid when the child would not be valid anyhow, OwnedByOther when it is
    somebody else's; and NotWanted when the owner is going, and with it the child.
    """
    try:
        return await client.apply(child, owner=owner)
    except Invalid:
        before = await client.find(type(child), child.key)
        if before is None:
            raise
        live = before.model_copy(deep=True)
        live.spec = overlaid(before.spec, child.spec)
        if live.spec == before.spec:
            raise
        await client.patch(live)
    except OwnedByOther as error:
        before = await client.find(type(child), child.key)
        if before is None or not error.made_here:
            raise
        await adopt(client, before, owner=owner)
    applied = await client.apply(child, owner=owner)
    return Applied(applied.object, before, Outcome.UPDATED)


def overlaid(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What is there, with every value and every list that is wanted in its place; maps are merged."""
    result = dict(live)
    for name, value in wanted.items():
        there = result.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            result[name] = overlaid(there, value)
        else:
            result[name] = value
    return result
