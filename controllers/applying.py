"""Applying children in spite of what others have made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from apis.apps.v1.deployment import Deployment
from apis.core.v1.service import Service
from apis.meta import Resource
from manager.client import Applied, Client, Outcome
from manager.kube.errors import Invalid

__all__ = ["apply_child"]

W = TypeVar("W", Deployment, Service)


async def apply_child(client: Client, child: W, *, owner: Resource) -> Applied[W]:
    """Bring a child to the wanted state, as `Client.apply` does, also where its lists are spoilt.

    An apply merges lists by the keys of their items: where somebody has changed a port from 80 to 8080, it
    puts 80 beside it, and the server refuses two ports of one name. Then, and only then, our lists replace
    theirs as a whole. Raises as `Client.apply`; Invalid when the child would not be valid anyhow.
    """
    try:
        return await client.apply(child, owner=owner)
    except Invalid:
        live = await client.find(type(child), child.key)
        if live is None:
            raise
        replaced = overlaid(live.spec, child.spec)
        if replaced == live.spec:
            raise
    before = live.model_copy(deep=True)
    live.spec = replaced
    await client.patch(live)
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
