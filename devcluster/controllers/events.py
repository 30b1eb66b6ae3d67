"""Events of the controllers; repetitions share an object."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import NamedTuple

from devcluster.clock import Clock
from devcluster.controllers.client import Client, Object
from devcluster.errors import StatusError

__all__ = ["EventRecorder"]

log = logging.getLogger("devcluster.controllers")

REMEMBERED = 4096
"""The number of recent Events whose repetitions are counted."""
BACKLOG = 10_000
"""The maximum of Events that wait to be written; more are dropped, as by the real recorder."""


class _Subject(NamedTuple):
    uid: str
    type: str
    reason: str
    message: str
    component: str


class EventRecorder:
    """A recorder that writes Events in the background, in order."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pending: deque[tuple[_Subject, Object]] = deque()
        self._written: OrderedDict[_Subject, tuple[str, int]] = OrderedDict()
        self._wake = asyncio.Event()
        self._last = 0

    def normal(
        self, about: Object, reason: str, message: str, *, component: str, container: str = ""
    ) -> None:
        """Record a Normal Event. `container` names the pod's container that it is about."""
        self._record(about, "Normal", reason, message, component, container)

    def warning(
        self, about: Object, reason: str, message: str, *, component: str, container: str = ""
    ) -> None:
        """Record a Warning Event; `container` as in `normal`."""
        self._record(about, "Warning", reason, message, component, container)

    def scheduling(self, about: Object, kind: str, reason: str, message: str, *, action: str) -> None:
        """Record a scheduling decision as an Event in the newer form, which has no count."""
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
        self._put(_Subject(about["metadata"]["uid"], kind, reason, message, ""), event)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            while not self._pending:
                self._wake.clear()
                await self._wake.wait()
            subject, event = self._pending.popleft()
            try:
                await self._write(subject, event)
            except StatusError as error:
                # The namespace may be terminating, and an Event deserves only one attempt.
                log.debug("event %s of %s: %s", event["reason"], event["metadata"]["name"], error)
            except Exception:
                log.exception("event %s of %s", event["reason"], event["metadata"]["name"])
            await asyncio.sleep(0)

    @property
    def idle(self) -> bool:
        """Whether all Events are written."""
        return not self._pending

    def _record(
        self, about: Object, kind: str, reason: str, message: str, component: str, container: str = ""
    ) -> None:
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
        self._put(_Subject(about["metadata"]["uid"], kind, reason, message, component), event)

    def _event(self, about: Object, kind: str, reason: str, message: str) -> Object:
        metadata = about["metadata"]
        # Events' names contain nanoseconds, which must differ even if the clock does not advance.
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

    def _put(self, subject: _Subject, event: Object) -> None:
        if len(self._pending) < BACKLOG:
            self._pending.append((subject, event))
            self._wake.set()

    async def _write(self, subject: _Subject, event: Object) -> None:
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
