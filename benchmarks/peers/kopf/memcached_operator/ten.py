"""Ten controllers for one kind, which share one watch."""

from __future__ import annotations

from typing import Any

import kopf
from memcached import MEMCACHEDS

CONTROLLERS = 10


def register(registry: kopf.OperatorRegistry) -> None:
    """Add the index, and a handler for each controller."""

    @kopf.index(*MEMCACHEDS, id="memcacheds", registry=registry)
    def memcacheds(namespace: str, name: str, body: kopf.Body, **_: Any) -> dict[Any, Any]:
        return {(namespace, name): body}

    for number in range(CONTROLLERS):
        kopf.on.event(*MEMCACHEDS, id=f"c{number}", registry=registry)(_reconcile)


async def _reconcile(namespace: str, name: str, memcacheds: kopf.Index, **_: Any) -> None:
    for _current in memcacheds.get((namespace, name), ()):
        pass
