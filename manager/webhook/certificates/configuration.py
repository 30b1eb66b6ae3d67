"""The two webhook configurations as targets: installed by somebody, or written by us."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.webhook.certificates.last_applied import noted
from manager.webhook.certificates.target import (
    Absent,
    Found,
    bundle_of,
    contains,
    get,
    hosts_of,
    send_patch,
)
from manager.webhook.json_object import JsonObject

__all__ = ["InstalledConfiguration", "WrittenConfiguration"]


class InstalledConfiguration:
    """Implements `Target` with a configuration that belongs to who installs us: only its bundles are ours.

    Webhooks of others in it are left alone, as they have authorities of their own.
    """

    def __init__(
        self, transport: Transport, kind: str, name: str, webhooks: Iterable[str], *, field_manager: str
    ) -> None:
        """Args:
        transport: for the requests.
        kind: MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
        name: of the configuration.
        webhooks: the names of ours in it.
        field_manager: under which writes are booked.
        """
        self._transport = transport
        self._kind, self._name = kind, name
        self._webhooks = frozenset(webhooks)
        self._field_manager = field_manager
        self._path = f"{_collection(kind)}/{name}"

    def __str__(self) -> str:
        return f"{self._kind} {self._name}"

    async def look(self) -> Found:
        """See `Target`."""
        try:
            body = await get(self._transport, self._path)
        except NotFound:
            raise Absent(f"{self} is not installed: nobody calls what it would name") from None
        configs = [each.get("clientConfig") or {} for _, each in self._ours(body)]
        if not configs:
            raise Absent(f"{self} has none of our webhooks: nobody calls them")
        hosts = dict.fromkeys(host for each in configs for host in hosts_of(each))
        return Found(tuple(map(bundle_of, configs)), tuple(hosts), intact=True, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """See `Target`. What it tests are the names and addresses of the webhooks, and their old bundles."""
        text = base64.b64encode(bundle).decode()
        operations: list[dict[str, Any]] = []
        for index, webhook in self._ours(found.body):
            path = f"/webhooks/{index}"
            operations += [
                {"op": "test", "path": f"{path}/name", "value": webhook["name"]},
                {"op": "test", "path": f"{path}/clientConfig", "value": webhook["clientConfig"]},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": text},
            ]
        await send_patch(self._transport, self._path, operations, field_manager=self._field_manager)

    def _ours(self, body: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
        """Our webhooks, and at which place they stand."""
        found = enumerate(body.get("webhooks") or ())
        return [(index, each) for index, each in found if each.get("name") in self._webhooks]


class WrittenConfiguration:
    """Implements `Target` with a configuration that is ours as a whole, for webhooks reached by a URL.

    It is replaced rather than applied: what another manager of fields has put there, such as the Service of
    an installation, would stay beside our URL, and the API server takes only one of them. An installation
    that is applied later takes it back (see `last_applied`).
    """

    def __init__(self, transport: Transport, wanted: JsonObject, *, field_manager: str) -> None:
        """`wanted` is all of it but the CA bundles; writes are booked under `field_manager`."""
        self._transport = transport
        self._query = {"fieldManager": field_manager}
        self._wanted = wanted
        self._name: str = wanted["metadata"]["name"]
        self._collection = _collection(wanted["kind"])
        hosts = (host for each in wanted["webhooks"] for host in hosts_of(each["clientConfig"]))
        self._hosts = tuple(dict.fromkeys(hosts))

    def __str__(self) -> str:
        return f"{self._wanted['kind']} {self._name}"

    async def look(self) -> Found:
        """See `Target`."""
        try:
            body = await get(self._transport, f"{self._collection}/{self._name}")
        except NotFound:
            return Found((), self._hosts, intact=False, body={})
        webhooks = body.get("webhooks") or []
        configs = [each.get("clientConfig") or {} for each in webhooks]
        # With a Service and a URL, a clientConfig would not have been stored.
        intact = contains(webhooks, self._wanted["webhooks"])
        return Found(tuple(map(bundle_of, configs)), self._hosts, intact=intact, body=body)

    async def inject(self, found: Found, bundle: bytes) -> None:
        """See `Target`. It replaces the version that was found, or creates it if there was none."""
        text = base64.b64encode(bundle).decode()
        webhooks = [
            {**each, "clientConfig": {**each["clientConfig"], "caBundle": text}}
            for each in self._wanted["webhooks"]
        ]
        written = {**self._wanted, "webhooks": webhooks}
        # What others keep in its metadata stays, and with it the version that makes this a precondition.
        metadata = found.body.get("metadata") or self._wanted["metadata"]
        metadata = {**metadata, "annotations": noted(found.body, written)}
        body = orjson.dumps({**written, "metadata": metadata})
        method, path = (
            ("PUT", f"{self._collection}/{self._name}") if found.body else ("POST", self._collection)
        )
        await self._transport.request(method, path, query=self._query, body=body)


def _collection(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
