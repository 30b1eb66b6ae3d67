"""Finds objects by kind, namespace, name and state."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import NamedTuple

import orjson

from manager.api import ObjectKey
from manager.cache import Informer, Record
from manager.controller import Controller
from manager.process.manager import Manager
from manager.util.loop import Portions
from manager_console.readiness import SILENT, Verdict, judge

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

_SMALL = 64
"""The work of checking a name or a queue, in bytes of JSON that take as long."""


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


async def search(manager: Manager, wanted: Wanted, resources: Collection[str]) -> tuple[list[Row], bool]:
    """Return the results of these kinds, in order, and whether there are more than are returned."""
    found, portions = list[Row](), Portions()
    for controller, informer in sources(manager):
        spec = informer.spec
        if spec.resource not in resources or wanted.resource not in ("", spec.resource):
            continue
        for record in informer.list(namespace=wanted.namespace):
            await portions.begin(_SMALL)
            key = record.key
            if wanted.name.lower() not in key.name.lower():
                continue
            doing, since, fits = _activity(controller, key, wanted)
            if not fits:
                continue
            await portions.begin(len(record.raw))
            verdict = readiness_of(informer, record)
            if wanted.state == "not-ready" and verdict.ready is not False:
                continue
            if len(found) == MOST_FOUND:
                return found, True
            found.append(Row(spec.resource, spec.gvk.kind, key, controller.name, doing, since, verdict))
    return found, False


def kinds(manager: Manager) -> list[str]:
    """Return the resources that can be searched, such as `pets.petstore.example.com`."""
    return list(dict.fromkeys(informer.spec.resource for _, informer in sources(manager)))


def sources(manager: Manager) -> Iterator[tuple[Controller, Informer]]:
    """Yield each controller with the cache of its kind."""
    for controller in manager.controllers:
        for informer in manager.cache.informers:
            if informer.spec.gvk == controller.primary and not informer.cuts_others:
                yield controller, informer
                break


def readiness_of(informer: Informer, record: Record) -> Verdict:
    """Return whether a cached object is ready."""
    try:
        return judge({"kind": informer.spec.gvk.kind, **orjson.loads(record.raw)})
    except ValueError:  # nested deeper than the parser reads
        return SILENT


def _activity(controller: Controller, key: ObjectKey, wanted: Wanted) -> tuple[str, float | None, bool]:
    """Return what a controller does with an object, for how many seconds, and whether that is wanted."""
    now = asyncio.get_running_loop().time()
    last, waiting = controller.runs.last(key), controller.waiting(key)
    doing, began = "", None
    if (running := controller.running(key)) is not None:
        doing, began = "running", running.started
    elif last is not None and last.outcome == "error":
        doing, began = "failing", last.started
        for run in reversed(controller.runs.of(key)):
            if run.outcome != "error":
                break
            began = run.started
    elif waiting is not None:
        doing, began = "waiting", waiting.since if waiting.due is None else None
    since = None if began is None else now - began
    match wanted.state:
        case "failing" | "running":
            return doing, since, doing == wanted.state
        case "waiting":
            return doing, since, waiting is not None
        case "slow":
            return doing, since, last is not None and last.seconds > wanted.seconds
        case "stuck":
            return doing, since, doing in ("failing", "running") and (since or 0.0) > wanted.seconds
    return doing, since, True
