"""The client of Leases: read, watch, write, delete."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from random import Random
from typing import Protocol
from urllib.parse import quote

import orjson

from manager.election.config import LeaseTiming
from manager.election.lease import Lease
from manager.kube.decoding import Listing, watch_events
from manager.kube.errors import NotFound
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.loop import own_turn

_log = get_logger("leader")


class LastError:
    """The last failure of a request for a lease; each new one is logged once, however often it repeats."""

    def __init__(self) -> None:
        self._problem: str | None = None
        self._kind: tuple[str, type[Exception]] | None = None

    @property
    def problem(self) -> str | None:
        """The failure in one sentence; None once a request for the lease has succeeded."""
        return self._problem

    def report(self, failed: str, error: Exception) -> None:
        """Note that something, such as `cannot read lease a/b`, failed with `error`."""
        self._problem = f"{failed}: {str(error) or type(error).__name__}"
        if self._kind != (failed, type(error)):
            self._kind = (failed, type(error))
            _log.warning(self._problem)

    def clear(self) -> None:
        """Note that a request succeeded."""
        if self._problem is not None:
            _log.info("the lease can be reached again", was=self._problem)
        self._problem = self._kind = None


# Leases per answer. Each is at most as large as etcd allows, so the answer stays below the read limit.
_PAGE = 40
# Bytes above which of a Lease of a group only an outline is kept: others may make large ones.
_LARGE = 32 * 1024
_WATCH_SECONDS = (300.0, 600.0)


def _collection(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"


class LeaseSet(Protocol):
    """A single Lease, or all Leases with a label."""

    async def read_all(self, *, timeout: float) -> list[Lease]:
        """Return the Leases as they are now, not from any cache."""

    def changes(self, *, rng: Random, silence: float) -> AsyncGenerator[tuple[Lease, bool], None]:
        """Watch the Leases: first as they are now, then each change, until the server ends the stream.

        Yields each state with True if the Lease was deleted in it. A stream that is silent for `silence`
        seconds is taken for dead and raises DeadlineExceeded.
        """


class LeaseClient:
    """A client of one Lease. Every method raises KubeError.

    A write whose error says nothing about its effect (a connection lost, a deadline, a failing server) may
    have happened, or may still happen: the resourceVersion it carries makes that harmless.
    """

    def __init__(self, transport: Transport, *, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self._transport = transport
        self._collection = _collection(namespace)
        self._object = f"{self._collection}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def read_all(self, *, timeout: float) -> list[Lease]:
        """Return the lease as it is now in a list, which is empty when there is none."""
        found = await self.read(timeout=timeout)
        return [] if found is None else [found]

    async def read(self, *, timeout: float) -> Lease | None:
        """Return the lease as it is now, not from any cache; None when there is none."""
        try:
            return Lease.decode(await self._transport.request("GET", self._object, deadline=timeout))
        except NotFound:
            return None

    async def write(self, lease: Lease, *, timeout: float) -> Lease:
        """Create the lease when it carries no version, else replace that version; return what is stored now.

        Raises Conflict, AlreadyExists or NotFound when the server has another version of it, or none.
        """
        body = lease.encode()
        if lease.metadata.get("resourceVersion"):
            answer = await self._transport.request("PUT", self._object, body=body, deadline=timeout)
        else:
            answer = await self._transport.request("POST", self._collection, body=body, deadline=timeout)
        return Lease.decode(answer)

    async def claim(
        self, lease: Lease, *, identity: str, timing: LeaseTiming, timeout: float
    ) -> tuple[Lease, float]:
        """Write the lease as held by `identity` from now on; return the stored lease and the sending time."""
        wanted = lease.claimed(identity=identity, seconds=timing.lease_seconds, now=clock.now())
        sent = clock.monotonic()
        return await self.write(wanted.sent(timing.clock, sent), timeout=timeout), sent

    async def delete(self, lease: Lease, *, timeout: float) -> None:
        """Delete that version of the lease; raises Conflict or NotFound when there is another, or none."""
        demanded = {
            name: lease.metadata[name] for name in ("uid", "resourceVersion") if name in lease.metadata
        }
        body = orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": demanded})
        await self._transport.request("DELETE", self._object, body=body, deadline=timeout)

    def changes(self, *, rng: Random, silence: float) -> AsyncGenerator[tuple[Lease, bool], None]:
        """Watch the lease; see `LeaseSet.changes`."""
        # With the name in the selector, RBAC can grant the watch of one lease only.
        query = {"fieldSelector": f"metadata.name={self.name}"}
        return _changes(self._transport, self._collection, query, Lease.decode, rng=rng, silence=silence)


class LeaseGroup:
    """The Leases of a namespace that have a label. Every method raises KubeError."""

    def __init__(self, transport: Transport, *, namespace: str, label: str) -> None:
        self.namespace = namespace
        self.label = label
        self._prefix = label.partition("/")[0] + "/"
        self._transport = transport
        self._collection = _collection(namespace)

    def __str__(self) -> str:
        return f"{self.namespace}, label {self.label}"

    def one(self, name: str) -> LeaseClient:
        """Return the client of one of them, which need not exist."""
        return LeaseClient(self._transport, namespace=self.namespace, name=name)

    async def read_all(self, *, timeout: float) -> list[Lease]:
        """Return the Leases as they are now, not from any cache."""
        listing = Listing(self._transport.request, self._collection, longest=LONGEST, deadline=timeout)
        query = {"labelSelector": self.label, "limit": str(_PAGE)}
        found, resume = [], None
        while resume != "":
            page = await listing.page(query, resume or "")
            for each in page.items:
                raw = bytes(each)
                await own_turn(len(raw))
                found.append(self._decode(raw))
            resume = page.resume
        return found

    def changes(self, *, rng: Random, silence: float) -> AsyncGenerator[tuple[Lease, bool], None]:
        """Watch the Leases; see `LeaseSet.changes`."""
        query = {"labelSelector": self.label}
        return _changes(self._transport, self._collection, query, self._decode, rng=rng, silence=silence)

    def _decode(self, raw: bytes) -> Lease:
        lease = Lease.decode(raw)
        return lease.outline(self._prefix) if len(raw) > _LARGE else lease


async def _changes(
    transport: Transport,
    collection: str,
    query: dict[str, str],
    decode: Callable[[bytes], Lease],
    *,
    rng: Random,
    silence: float,
) -> AsyncGenerator[tuple[Lease, bool], None]:
    query = {"watch": "true", **query, "timeoutSeconds": str(round(rng.uniform(*_WATCH_SECONDS)))}
    async with transport.stream(collection, query=query, idle_timeout=silence) as chunks:
        async for event in watch_events(chunks):
            if event.type != "BOOKMARK":
                yield decode(bytes(event.object)), event.type == "DELETED"
