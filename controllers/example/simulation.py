"""Checks for Wordpresses in a simulation, besides the checks for all kinds."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson

from apis.example.v1.wordpress import Wordpress
from controllers.example.parts import DATABASE, PARTS
from manager_kinds.quantity import parse_quantity
from manager_tools.simulation import NAMES, NAMESPACES, PLANTED, Outside

if TYPE_CHECKING:
    from manager import AnyOperator
    from manager_tools.simulation import Change, Replica, Sent

_SECRETS, _CLAIMS = "secrets", "persistentvolumeclaims"
_KEYS = ("a", "web", "db", "dog")


class WordpressOutside(Outside):
    """The check that retained data, and its password, outlive their site."""

    kept = frozenset({_CLAIMS, _SECRETS})
    given = frozenset({_SECRETS})

    def operator(self, operator: AnyOperator, replica: Replica) -> AnyOperator:  # noqa: ARG002
        """Return the operator with a longer `database_retry`; the default slows long simulations down."""

        class Simulated(operator):  # type: ignore[misc, valid-type]
            name = operator.name
            database_retry = 60.0

        return Simulated

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Create the Secrets to which sites may refer."""
        self._given_up: set[str] = set()
        data = {key: base64.b64encode(f"{PLANTED}-{key}".encode()).decode() for key in _KEYS}
        for namespace in NAMESPACES if self.world.plan.steps else ():
            for name in (*_KEYS, *NAMES[2:]):
                await self.world.cluster.client.create(
                    _SECRETS, namespace, {"metadata": {"name": name}, "data": data}
                )
        yield

    def seen(self, change: Change, sent: Sent | None) -> None:
        """Record Secrets and volumes that a manager deletes, overwrites or shrinks, or that are lost."""
        if change.key.plural not in {"wordpresses", *self.kept}:
            return
        before, after = (orjson.loads(each.data) if each else {} for each in (change.old, change.new))
        if change.key.plural in self.kept and before:
            self._compare(before, after, sent)
        elif after.get("spec", {}).get("reclaimPolicy") == "Delete":
            self._given_up.add(after["metadata"]["uid"])

    def _compare(self, before: dict[str, Any], after: dict[str, Any], sent: Sent | None) -> None:
        metadata = before["metadata"]
        place = f"{before['kind']} {metadata['namespace']}/{metadata['name']}"
        if not after:
            owners = {each["uid"] for each in metadata.get("ownerReferences", ())}
            if sent is not None:
                self.world.violated(f"{sent} deleted {place}")
            elif not owners & self._given_up and not self._is_deleted(metadata["namespace"]):
                self.world.violated(f"{place} is gone, although it must be kept")
        elif sent is not None and before.get("data") != after.get("data"):
            self.world.violated(f"{sent} changed what {place} says")
        elif sent is not None and before["kind"] == "PersistentVolumeClaim":
            was, now = (each["spec"]["resources"]["requests"]["storage"] for each in (before, after))
            if parse_quantity(now) < parse_quantity(was):
                self.world.violated(f"{sent} made {place} smaller")

    def _is_deleted(self, namespace: str) -> bool:
        found = self.world.cluster.client.peek("namespaces", "", namespace)
        return found is None or "deletionTimestamp" in found["metadata"]

    def inherited(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the volumes and Secrets that a site has inherited from an earlier site with its name."""
        client, born = self.world.cluster.client, self.world.born
        for obj in client.list("wordpresses.example.com"):
            site = Wordpress.model_validate(obj)
            named = [(_CLAIMS, part.claim(site)) for part in PARTS]
            for resource, name in [*named, (_SECRETS, DATABASE.workload(site))]:
                found = client.peek(resource, site.metadata.namespace, name)
                if found is None or born[found["metadata"]["uid"]] > born[site.metadata.uid]:
                    continue
                stays = ("name", "namespace", "labels")
                metadata = {each: found["metadata"][each] for each in stays if each in found["metadata"]}
                found.get("spec", {}).pop("volumeName", None)
                yield resource, {**found, "metadata": metadata, "status": {}}
