"""The Memcached operator.

Memcacheds have handlers for creation, update and resume, which kopf retries. kopf counts the attempts in an
annotation, which takes one more write per object. Low-level event handlers need no such write and a fifth
less CPU, but kopf does not retry them. Children's watch events have low-level handlers only.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

import desired
import kopf
from access import MERGE, STRATEGIC
from desired import CR_LABEL

if TYPE_CHECKING:
    from access import Api

GROUP, VERSION, PLURAL = "cache.example.com", "v1", "memcacheds"
MEMCACHEDS = (GROUP, VERSION, PLURAL)
DEPLOYMENTS = ("apps", "v1", "deployments")
PODS = ("", "v1", "pods")
OWNED = {CR_LABEL: kopf.PRESENT}

# A lock disappears when no task holds it or waits for it.
_locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()


def register(registry: kopf.OperatorRegistry, api: Api) -> None:
    """Add the operator's indexes and handlers."""

    @kopf.index(*MEMCACHEDS, id="memcacheds", registry=registry)
    def memcacheds(namespace: str, name: str, body: kopf.Body, **_: Any) -> dict[Any, Any]:
        return {(namespace, name): body}

    @kopf.index(*DEPLOYMENTS, id="deployments", labels=OWNED, registry=registry)
    def deployments(namespace: str, name: str, body: kopf.Body, **_: Any) -> dict[Any, Any]:
        return {(namespace, name): body}

    @kopf.index(*PODS, id="pods", labels=OWNED, registry=registry)
    def pods(namespace: str, name: str, meta: kopf.Meta, **_: Any) -> dict[Any, Any] | None:
        # None would keep the old value in the index; an empty result removes it.
        return {} if meta.get("deletionTimestamp") else {(namespace, meta.labels[CR_LABEL]): name}

    @kopf.on.resume(*MEMCACHEDS, id="memcached", registry=registry)
    @kopf.on.create(*MEMCACHEDS, id="memcached", registry=registry)
    @kopf.on.update(*MEMCACHEDS, id="memcached", registry=registry)
    async def memcached(namespace: str, name: str, **kwargs: Any) -> None:
        await _reconcile(api, (namespace, name), kwargs)

    # Events of the first list have no type; at the start, kopf calls the Memcacheds' own handlers.

    @kopf.on.event(*DEPLOYMENTS, id="deployment", labels=OWNED, registry=registry)
    async def deployment(namespace: str, type: str | None, labels: kopf.Labels, **kwargs: Any) -> None:  # noqa: A002 -- kopf's name
        # A created Deployment is as in the response to its creation, which the Memcached's handler has used.
        if type not in {None, "ADDED"}:
            await _reconcile(api, (namespace, labels[CR_LABEL]), kwargs)

    @kopf.on.event(*PODS, id="pod", labels=OWNED, registry=registry)
    async def pod(namespace: str, type: str | None, labels: kopf.Labels, **kwargs: Any) -> None:  # noqa: A002 -- kopf's name
        if type is not None:
            await _reconcile(api, (namespace, labels[CR_LABEL]), kwargs)


async def _reconcile(api: Api, key: tuple[str, str], indexes: dict[str, kopf.Index]) -> None:
    """Bring the Deployment to its desired state, and the status to the observed state.

    The handlers of a Memcached and of its children run concurrently, so kopf's write after a handler could
    replace a newer status with an older one. So this function writes the status itself.
    """
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    async with lock:
        memcached = _first(indexes["memcacheds"], key)
        if memcached is None or memcached.metadata.get("deletionTimestamp"):
            return
        found = await _ensure_deployment(api, memcached, _first(indexes["deployments"], key))
        status = desired.status(memcached, found, indexes["pods"].get(key, ()))
        if status != {name: memcached.status.get(name) for name in status}:
            path = f"/apis/{GROUP}/{VERSION}/namespaces/{key[0]}/{PLURAL}/{key[1]}/status"
            await api.patch(path, {"status": status}, MERGE)


async def _ensure_deployment(api: Api, memcached: kopf.Body, found: kopf.Body | None) -> Any:
    wanted = desired.deployment(memcached)
    path = f"/apis/apps/v1/namespaces/{memcached.metadata.namespace}/deployments"
    if found is None:
        created = await api.create(path, wanted)
        if created is None:
            raise kopf.TemporaryError("the Deployment is there, but not yet in the index", delay=1)
        return created
    if not desired.agrees(found, wanted):
        return await api.patch(f"{path}/{memcached.metadata.name}", wanted, STRATEGIC)
    return found


def _first(index: kopf.Index, key: tuple[str, str]) -> Any:
    return next(iter(index.get(key, ())), None)
