"""Recorder of Events, and helpers for the objects that controllers read and write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import msgspec

from devcluster.api.local import LocalClient
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.storage import Stored

Object = dict[str, Any]
Resource = tuple[str, str]
"""Group and plural, as in the store's keys."""

CLAIMS: Resource = ("", "persistentvolumeclaims")
JOBS: Resource = ("batch", "jobs")
NAMESPACES: Resource = ("", "namespaces")
NODES: Resource = ("", "nodes")
PODS: Resource = ("", "pods")
REPLICA_SETS: Resource = ("apps", "replicasets")
REVISIONS: Resource = ("apps", "controllerrevisions")


log = logging.getLogger("devcluster.controllers")

REMEMBERED = 4096
"""The number of recent Events for which repetitions are counted."""
BACKLOG = 10_000
"""The maximum number of Events that wait to be written; further ones are dropped, as in the real recorder."""


Subject = tuple[str, ...]
"""The identity of an Event: the object's UID, and type, reason, message and component."""


class EventRecorder:
    """Recorder that writes Events in the background, in the order of the calls."""

    def __init__(self, client: LocalClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pending: deque[tuple[Subject, Object]] = deque()
        self._written: OrderedDict[Subject, tuple[str, int]] = OrderedDict()
        self._wake = asyncio.Event()
        self._last = 0

    def record(
        self, about: Object, kind: str, reason: str, message: str, *, component: str, container: str = ""
    ) -> None:
        """Record an Event of type `kind`, `Normal` or `Warning`; `container` names a container of the pod."""
        event = self._event(about, kind, reason, message)
        now = self._clock.timestamp()
        event |= {
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": "",
        }
        if container:
            event["involvedObject"]["fieldPath"] = f"spec.containers{{{container}}}"
        self._put((about["metadata"]["uid"], kind, reason, message, component), event)

    def scheduling(self, about: Object, kind: str, reason: str, message: str, *, action: str) -> None:
        """Record a scheduling decision as an Event in the form of events.k8s.io, which has no count."""
        event = self._event(about, kind, reason, message)
        event |= {
            "eventTime": self._clock.micro_timestamp(),
            "firstTimestamp": None,
            "lastTimestamp": None,
            "action": action,
            "source": {},
            "reportingComponent": "default-scheduler",
            "reportingInstance": "default-scheduler-devcluster",
        }
        self._put((about["metadata"]["uid"], kind, reason, message, ""), event)

    async def run(self) -> None:
        """Write the recorded Events until cancelled."""
        while True:
            while not self._pending:
                self._wake.clear()
                await self._wake.wait()
            subject, event = self._pending.popleft()
            try:
                await self._write(subject, event)
            except StatusError as error:
                # The namespace may be terminating, so an Event gets only one attempt.
                log.debug(
                    "cannot add Event %s, reason %s: %s", event["metadata"]["name"], event["reason"], error
                )
            except Exception:
                log.exception("cannot add Event %s, reason %s", event["metadata"]["name"], event["reason"])
            await asyncio.sleep(0)

    def _event(self, about: Object, kind: str, reason: str, message: str) -> Object:
        metadata = about["metadata"]
        # Events' names contain nanoseconds, which must differ even if the clock stands still.
        self._last = max(self._last + 1, int(self._clock.now().timestamp() * 1_000_000) * 1000)
        involved = {
            "kind": about["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": about["apiVersion"],
            "resourceVersion": metadata["resourceVersion"],
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{self._last:x}",
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": {name: value for name, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "type": kind,
        }

    def _put(self, subject: Subject, event: Object) -> None:
        if len(self._pending) < BACKLOG:
            self._pending.append((subject, event))
            self._wake.set()

    async def _write(self, subject: Subject, event: Object) -> None:
        namespace = event["metadata"]["namespace"]
        known = self._written.pop(subject, None)
        if known is not None and event.get("count"):
            name, count = known
            patch = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch("events", namespace, name, patch)
            except StatusError as error:
                if error.code != 404:  # noqa: PLR2004 -- not found: expired or deleted
                    raise
            else:
                self._written[subject] = (name, count + 1)
                return
        await self._client.create("events", namespace, event)
        self._written[subject] = (event["metadata"]["name"], 1)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)


class OwnerReference(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An entry of `metadata.ownerReferences`."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Fields of `metadata` that decide when an object is deleted."""

    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """Owner reference of the object's controller, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Envelope(msgspec.Struct):
    metadata: Metadata


_decoder = msgspec.json.Decoder(_Envelope)


_PLAIN = Metadata()


def metadata_of(stored: Stored) -> Metadata:
    """Return owners, finalizers and deletion time; the JSON is decoded only if it has one of these."""
    data = stored.data
    if b'"ownerReferences"' in data or b'"deletionTimestamp"' in data or b'"finalizers"' in data:
        try:
            return _decoder.decode(data).metadata
        except msgspec.ValidationError:
            # The match may be a null, or a word in another text of the object.
            return _PLAIN
    return _PLAIN


def key_of(obj: Object) -> tuple[str, str]:
    """Return the object's (namespace, name)."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


@contextlib.contextmanager
def ignoring(*reasons: str) -> Iterator[None]:
    """Ignore StatusErrors whose reason is one of these, such as NotFound."""
    try:
        yield
    except StatusError as error:
        if error.reason not in reasons:
            raise


def is_going(obj: Object) -> bool:
    """Return whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def age_of(obj: Object) -> tuple[str, str]:
    """Return a sort key by age: the oldest object comes first."""
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of the object's controller, or None."""
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def owner_reference(owner: Object) -> Object:
    """Build the owner reference for objects that `owner` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
