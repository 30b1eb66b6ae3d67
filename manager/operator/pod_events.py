"""The Events of pods that do not start: only they say why volumes or a sandbox cannot be had."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec
import orjson

from manager.api import Resource
from manager.client.reader import LiveReader
from manager.kube.errors import KubeError
from manager.telemetry.logs import reconcile_log
from manager.util import clock
from manager_kinds.pod_health import PodHealth, Problem, warning_of

ASK_AGAIN_AFTER = 30.0
"""Seconds for which an answer counts."""

_MOST_KNOWN = 1000
_MOST_READ = 100


class _Event(Resource, group="", version="v1", kind="Event", plural="events"):
    pass


class _Answer(NamedTuple):
    problem: Problem | None
    until: float


class PodEvents:
    """Reader of the Events of one pod at a time, at most every 30 seconds per pod."""

    def __init__(self, reader: LiveReader) -> None:
        self._reader = reader
        self._known: OrderedDict[str, _Answer] = OrderedDict()

    async def problem_of(self, pod: PodHealth) -> Problem | None:
        """Return the pod's last warning, or None without one or where Events cannot be read."""
        known = self._known.get(pod.uid)
        if known is not None and clock.monotonic() < known.until:
            return known.problem
        problem = known.problem if known is not None else None
        try:
            problem = await self._read(pod)
        except KubeError as error:
            reconcile_log().debug("cannot read the Events of a pod", pod=pod.name, error=str(error))
        self._known[pod.uid] = _Answer(problem, clock.monotonic() + ASK_AGAIN_AFTER)
        self._known.move_to_end(pod.uid)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return problem

    async def _read(self, pod: PodHealth) -> Problem | None:
        pages = self._reader.raw_pages(
            _Event, namespace=pod.namespace, field_selector=f"involvedObject.uid={pod.uid}", limit=_MOST_READ
        )
        async for page in pages:
            return warning_of(map(_decoded, page))
        return None


def _decoded(raw: msgspec.Raw) -> object:
    return orjson.loads(memoryview(raw))
