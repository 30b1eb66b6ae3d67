"""Finding objects by kind, namespace, name, and what their controllers have to do with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from manager.api import ObjectKey
from manager.cache import Informer, Record
from manager.controller import Controller
from manager.explain.judging import SILENT, Verdict, judge
from manager.loop import Portions
from manager.manager import Manager

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
    """What is searched for; what is empty does not matter."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    """A part of it."""

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
"""Bytes whose work is that of a look at a name."""


async def search(manager: Manager, resources: list[str], wanted: Wanted) -> tuple[list[Row], bool]:
    """Objects of these kinds, in the order of their names; and whether there are more than are told."""
    found: list[Row] = []
    portions, name = Portions(), wanted.name.lower()
    for controller, informer in sources(manager):
        resource = informer.spec.resource
        if resource not in resources or wanted.resource not in ("", resource):
            continue
        for record in informer.list(namespace=wanted.namespace):
            matches = name in record.key.name.lower()
            await portions.begin(len(record.raw) if matches else _LOOKED_AT)
            if not matches:
                continue
            row = _row(controller, informer, record)
            if _is_wanted(controller, row, wanted):
                if len(found) == MOST_FOUND:
                    return found, True
                found.append(row)
    return found, False


def kinds(manager: Manager) -> list[str]:
    """Those that can be searched, as `pets.petstore.example.com`."""
    return list(dict.fromkeys(informer.spec.resource for _, informer in sources(manager)))


def sources(manager: Manager) -> Iterator[tuple[Controller, Informer]]:
    """Each controller with the cache of the kind that it works on."""
    for controller in manager.controllers:
        of_kind = [each for each in manager.cache.informers if each.spec.gvk == controller.primary]
        yield from ((controller, each) for each in of_kind[:1])


def _row(controller: Controller, informer: Informer, record: Record) -> Row:
    key, now = record.key, asyncio.get_running_loop().time()
    doing, since = "", None
    last = controller.runs.last(key)
    waiting = controller.waiting(key)
    if (running := controller.running(key)) is not None:
        doing, since = "running", running.started
    elif last is not None and last.outcome == "error":
        doing, since = "failing", _failing_since(controller, key)
    elif waiting is not None:
        doing, since = "waiting", waiting.since if waiting.due is None else None
    verdict = verdict_of(informer, record)
    spec = informer.spec
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
    """Whether an object of a cache is as it should be."""
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
