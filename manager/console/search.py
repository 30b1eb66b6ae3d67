"""Finds objects by kind, namespace, name and state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import orjson

from manager.api import ObjectKey
from manager.cache import CacheEvent, Informer, Record, WatchSpec
from manager.controller import Controller
from manager.explain.judging import SILENT, Verdict, judge
from manager.loop import Portions
from manager.manager import Manager
from manager.runs import Run

STATES = {
    "": "in any state",
    "not-ready": "not ready",
    "failing": "failing",
    "waiting": "waiting for a worker, or for its next try",
    "running": "being reconciled",
    "slow": "slow: its last reconcile took longer than",
    "stuck": "failing or running for longer than",
}

MOST_FOUND = 200


class Wanted(NamedTuple):
    """The search; empty fields match everything."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    """A part of the name."""

    state: str = ""
    """One of `STATES`."""

    seconds: float = 0.0
    """For states that say `longer than`."""


class Row(NamedTuple):
    """An object that was found."""

    resource: str
    kind: str
    key: ObjectKey
    controller: str
    doing: str
    since: float | None
    """For how many seconds it has failed, run or waited."""

    verdict: Verdict


_LOOKED_AT = 64
"""The work of checking a name, in bytes of JSON that take as long."""

_MOVING = {"running", "waiting", "stuck"}
"""States that begin without an event."""

_Place = tuple[int, ObjectKey]
"""The source's number and the object's key: results are in this order."""

_NOTHING = ObjectKey("", "")


class Search:
    """A search's results, kept current by changes while the page is open."""

    def __init__(self, manager: Manager, wanted: Wanted) -> None:
        self._manager = manager
        self._wanted = wanted
        self._sources = [
            (controller, informer)
            for controller, informer in sources(manager)
            if wanted.resource in ("", informer.spec.resource)
        ]
        self._resources: list[str] = []
        self._heard = 0
        self._begin()

    def _begin(self) -> None:
        self._found: dict[_Place, Verdict] = {}
        self._failing: set[_Place] = set()
        self._changed: set[_Place] = set()
        self._reached: _Place = (-1, _NOTHING)
        """Everything up to here has been checked. The rest is not, once enough is found."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While the context lasts, `look` checks only what has changed since the last one."""
        self._begin()
        numbers = {controller.name: number for number, (controller, _) in enumerate(self._sources)}

        def hear(number: int, key: ObjectKey) -> None:
            self._changed.add((number, key))
            self._heard += 1

        def ended(run: Run) -> None:
            if (number := numbers.get(run.controller)) is not None:
                hear(number, run.key)

        with ExitStack() as left:
            for number, (_, informer) in enumerate(self._sources):
                handler = partial(_of_event, partial(hear, number))
                left.callback(informer.subscribe(handler, replay=False))
            self._manager.history.listeners.append(ended)
            left.callback(self._manager.history.listeners.remove, ended)
            yield

    def glance(self) -> Hashable:
        """Another value after a change."""
        if self._wanted.state not in _MOVING:
            return self._heard
        queues = [controller.queue for controller, _ in self._sources]
        return self._heard, *((len(each), each.delayed, each.running) for each in queues if each is not None)

    async def look(self, resources: list[str]) -> tuple[list[Row], bool]:
        """The results of these kinds, in order, and whether there are more than are returned."""
        if resources != self._resources:
            self._resources = resources
            self._begin()
        portions = Portions()
        changed, self._changed = self._changed, set()
        if self._wanted.state in _MOVING:
            changed |= await self._moving(portions)
        for place in changed:
            if place <= self._reached:
                await self._judge(place, portions)
        await self._go_on(portions)
        shown = sorted(self._found)
        if len(shown) > MOST_FOUND:
            self._reached = shown[MOST_FOUND]
            self._found = {place: self._found[place] for place in shown[: MOST_FOUND + 1]}
        return [self._row(place) for place in shown[:MOST_FOUND]], len(shown) > MOST_FOUND

    async def _go_on(self, portions: Portions) -> None:
        """Check further objects until enough are found."""
        if len(self._found) > MOST_FOUND:
            return
        for number, (_, informer) in enumerate(self._sources):
            if number < self._reached[0]:
                continue
            for record in informer.list(namespace=self._wanted.namespace):
                place = number, record.key
                if place <= self._reached:
                    continue
                if len(self._found) > MOST_FOUND:
                    return
                self._reached = place
                await self._judge(place, portions)
        if len(self._found) <= MOST_FOUND:
            self._reached = len(self._sources), _NOTHING

    async def _moving(self, portions: Portions) -> set[_Place]:
        """The objects that may have entered or left the wanted state."""
        moving = {*self._found, *self._failing}
        for number, (controller, informer) in enumerate(self._sources):
            if informer.spec.resource not in self._resources:
                continue
            for key in controller.moving():
                await portions.begin(_LOOKED_AT)
                moving.add((number, key))
        return moving

    async def _judge(self, place: _Place, portions: Portions) -> None:
        wanted, (controller, informer) = self._wanted, self._sources[place[0]]
        record = informer.get(place[1])
        self._found.pop(place, None)
        self._failing.discard(place)
        if record is None or wanted.namespace not in ("", record.key.namespace):
            return
        if informer.spec.resource not in self._resources:
            return
        matches = wanted.name.lower() in record.key.name.lower()
        await portions.begin(len(record.raw) if matches else _LOOKED_AT)
        if not matches:
            return
        verdict = verdict_of(informer, record)
        row = _row(controller, informer.spec, record.key, verdict)
        if row.doing == "failing":
            self._failing.add(place)
        if _is_wanted(controller, row, wanted):
            self._found[place] = verdict

    def _row(self, place: _Place) -> Row:
        controller, informer = self._sources[place[0]]
        return _row(controller, informer.spec, place[1], self._found[place])


def _of_event(hear: Callable[[ObjectKey], None], event: CacheEvent) -> None:
    hear(event.key)


def kinds(manager: Manager) -> list[str]:
    """The resources that can be searched, such as `pets.petstore.example.com`."""
    return list(dict.fromkeys(informer.spec.resource for _, informer in sources(manager)))


def sources(manager: Manager) -> Iterator[tuple[Controller, Informer]]:
    """Each controller with the cache of its kind."""
    for controller in manager.controllers:
        of_kind = [
            each
            for each in manager.cache.informers
            if each.spec.gvk == controller.primary and not each.cuts_others
        ]
        yield from ((controller, each) for each in of_kind[:1])


def _row(controller: Controller, spec: WatchSpec, key: ObjectKey, verdict: Verdict) -> Row:
    now = asyncio.get_running_loop().time()
    doing, since = "", None
    last = controller.runs.last(key)
    waiting = controller.waiting(key)
    if (running := controller.running(key)) is not None:
        doing, since = "running", running.started
    elif last is not None and last.outcome == "error":
        doing, since = "failing", _failing_since(controller, key)
    elif waiting is not None:
        doing, since = "waiting", waiting.since if waiting.due is None else None
    return Row(
        spec.resource,
        spec.gvk.kind,
        key,
        controller.name,
        doing,
        None if since is None else now - since,
        verdict,
    )


def verdict_of(informer: Informer, record: Record) -> Verdict:
    """Whether a cached object is ready."""
    try:
        return judge({"kind": informer.spec.gvk.kind, **orjson.loads(record.raw)})
    except ValueError:  # nested deeper than anybody reads
        return SILENT


def _failing_since(controller: Controller, key: ObjectKey) -> float:
    since = 0.0
    for run in reversed(controller.runs.of(key)):
        if run.outcome != "error":
            break
        since = run.started
    return since


def _is_wanted(controller: Controller, row: Row, wanted: Wanted) -> bool:
    match wanted.state:
        case "not-ready":
            return row.verdict.ready is False
        case "failing" | "running":
            return row.doing == wanted.state
        case "waiting":
            return controller.waiting(row.key) is not None
        case "slow":
            last = controller.runs.last(row.key)
            return last is not None and last.seconds > wanted.seconds
        case "stuck":
            return row.doing in ("failing", "running") and (row.since or 0.0) > wanted.seconds
    return True
