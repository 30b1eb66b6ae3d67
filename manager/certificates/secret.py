"""The Secret that the replicas of one manager share, and the certificate in it that each of them serves."""

from __future__ import annotations

import asyncio
import base64
import binascii
from datetime import datetime
from typing import Any
from urllib.parse import quote

import orjson

from manager.certificates.store import Changed, Material, Snapshot, StoreUnusable
from manager.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.util.program import Program
from manager.webhook.configurations import field_manager_of

_DEADLINE = 10.0


class SecretStore:
    """`Store` in a Secret of type kubernetes.io/tls.

    Besides `tls.crt` and `tls.key`, the Secret has the bundle in `ca.crt`, as with cert-manager, and
    `ca.key`. Other entries, labels and annotations stay unchanged.
    """

    def __init__(self, transport: Transport, program: Program, *, namespace: str, name: str) -> None:
        self._transport = transport
        self._program = program
        self._namespace = namespace
        self._name = name
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"
        self._object = f"{self._collection}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> Snapshot:
        """See `Store`."""
        try:
            body = await self._transport.request("GET", self._object, deadline=_DEADLINE)
        except NotFound:
            return Snapshot(Material(), None)
        except Forbidden as error:
            raise StoreUnusable(f"{self} cannot be read: {error}") from error
        secret = _decoded(body)
        return Snapshot(Material.of(_data(secret)), secret)

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        """See `Store`."""
        known: dict[str, Any] | None = instead_of.version
        entries = {name: base64.b64encode(text).decode() for name, text in material.entries().items()}
        try:
            if known is None:
                await self._send("POST", self._collection, self._new(entries))
            else:
                # With the version that was read in its metadata, so that it replaces that one or none.
                await self._send("PUT", self._object, {**known, "data": (known.get("data") or {}) | entries})
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and known is None:
                raise StoreUnusable(f"{self} cannot be created: {error}") from error
            raise Changed(str(error)) from error
        except (Forbidden, Invalid) as error:
            # An invalid one is immutable, or of a type that wants something else; neither can be changed.
            raise StoreUnusable(f"{self} cannot be written: {_without_values(error)}") from error

    async def _send(self, method: str, path: str, secret: dict[str, Any]) -> None:
        body = orjson.dumps(secret)
        query = {"fieldManager": field_manager_of(self._program)}
        await self._transport.request(method, path, query=query, body=body, deadline=_DEADLINE)

    def _new(self, data: dict[str, str]) -> dict[str, Any]:
        labels = {**self._program.labels, "app.kubernetes.io/managed-by": self._program.name}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": labels},
            "type": "kubernetes.io/tls",
            "data": data,
        }


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        secret = orjson.loads(body)
    except orjson.JSONDecodeError:
        secret = None
    if not isinstance(secret, dict):
        # Not with the decoder's error as the cause, which has the text.
        raise StoreUnusable("the API server's answer is no Secret") from None
    return secret


def _data(secret: dict[str, Any]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return found


def _without_values(error: Forbidden | Invalid) -> str:
    """Return the server's message; for an invalid Secret only the fields, as the message may quote values."""
    if isinstance(error, Forbidden):
        return str(error)
    causes = error.details.get("causes") or []
    fields = [str(cause["field"]) for cause in causes if isinstance(cause, dict) and cause.get("field")]
    return f"the API server finds it invalid ({', '.join(fields) or 'it does not say where'})"


_log = get_logger("webhook.certificates")

_FIRST = 1.0
_LATER = 5.0


class SecretCertificate:
    """`CertificateSource` with the certificate that `follow` read last.

    It polls every five seconds instead of watching. One GET by name costs the API server little, and there is
    no connection to lose or to resume. A certificate is renewed a month before it expires, so the delay does
    no harm. Until the first certificate exists, servers wait for it, and it polls every second.
    """

    def __init__(self, store: SecretStore, read_every: float | None = None) -> None:
        """`read_every` so many seconds, once there is one; a simulation reads less often."""
        self._store = store
        self._read_every = read_every
        self._pair: KeyPair | None = None
        self._problem = f"{store} has not been read yet"

    def __str__(self) -> str:
        return str(self._store)

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`; answers at once."""
        del now
        if self._pair is None:
            raise CertificateUnusable(self._problem)
        return self._pair

    async def follow(self) -> None:
        """Poll the Secret until cancelled; log a problem when it changes."""
        told = ""
        while True:
            try:
                self._pair = (await self._store.read()).material.pair
                problem = "" if self._pair else f"{self._store} has no certificate yet: the leader makes it"
                self._problem = problem
            except (StoreUnusable, KubeError) as error:
                # Keep serving the last certificate: an unreachable API server has not replaced it.
                self._problem = problem = str(error)
                if problem != told:
                    _log.warning("cannot read the certificate of the webhooks", error=problem)
            told = problem
            await asyncio.sleep(_FIRST if self._pair is None else self._read_every or _LATER)
