"""Event objects on the server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from manager.events.series import Series
from manager.kube.errors import AlreadyExists, NotFound
from manager.kube.transport import Transport

# Seconds for one request: an Event is not worth waiting for longer.
_DEADLINE = 10.0
# Where the Events of objects without a namespace are kept; the server insists on it.
_DEFAULT_NAMESPACE = "default"


class EventSink:
    """Writes a series as a `v1` Event: created once, patched when it goes on."""

    def __init__(self, transport: Transport, *, component: str, instance: str) -> None:
        self._transport = transport
        self._component = component
        self._instance = instance

    async def write(self, series: Series) -> bool:
        """Store the series as it is now; return True if that created the Event. Raises KubeError."""
        if series.stored:
            try:
                await self._patch(series)
            except NotFound:
                series.stored = False  # the server forgets Events, after an hour by default
            else:
                return False
        try:
            await self._create(series)
        except AlreadyExists:
            # Created by an earlier attempt whose answer was lost.
            await self._patch(series)
        series.stored = True
        return True

    async def _create(self, series: Series) -> None:
        path = _events_path(series)
        await self._transport.request(
            "POST", path, body=orjson.dumps(self._event(series)), deadline=_DEADLINE
        )

    async def _patch(self, series: Series) -> None:
        change = {"count": series.count, "lastTimestamp": _time(series.last), "message": series.message}
        await self._transport.request(
            "PATCH",
            f"{_events_path(series)}/{quote(series.name, safe='')}",
            body=orjson.dumps(change),
            content_type="application/merge-patch+json",
            deadline=_DEADLINE,
        )

    def _event(self, series: Series) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": _namespace(series)},
            "involvedObject": series.reference.to_wire(),
            "type": series.type,
            "reason": series.reason,
            "message": series.message,
            "count": series.count,
            "firstTimestamp": _time(series.first),
            "lastTimestamp": _time(series.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _namespace(series: Series) -> str:
    return series.reference.namespace or _DEFAULT_NAMESPACE


def _events_path(series: Series) -> str:
    return f"/api/v1/namespaces/{quote(_namespace(series), safe='')}/events"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
