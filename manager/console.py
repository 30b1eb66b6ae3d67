"""What a running manager tells of its objects, over HTTP: for `explain`, and for whoever looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from manager import clock
from manager.access.access import Access
from manager.access.reviews import Place
from manager.address import is_loopback, split_address
from manager.api import GroupVersionKind, ObjectKey
from manager.controller import Controller
from manager.http.guard import guarded
from manager.http.server import Page
from manager.kube.errors import KubeError
from manager.manager import Manager
from manager.runs import Run, Trigger

if TYPE_CHECKING:
    from aiohttp import web

_NOT_FOUND, _MISDIRECTED = 404, 421
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_OBJECT = "/api/objects/{resource}/{name}", "/api/objects/{resource}/{namespace}/{name}"


def console_pages(manager: Manager, access: Access | None) -> Mapping[str, Page]:
    """Pages by path. With `access`, for who may `get` the object; without, for everybody on this machine.

    `/api/objects/RESOURCE/NAMESPACE/NAME`, or without a namespace for what is in none, has what the
    controllers of that kind have done with the object. RESOURCE is as in `pets.petstore.example.com`.
    """

    async def show(request: web.Request) -> web.Response:
        from aiohttp import web  # noqa: PLC0415 - see manager.http.server

        found = request.match_info
        key = ObjectKey(found.get("namespace", ""), found["name"])
        controllers = [
            each for each in manager.controllers if await _resource(manager, each) == found["resource"]
        ]
        if not controllers:
            return web.Response(status=_NOT_FOUND, text="no controller of this kind\n", headers=_HEADERS)
        body = orjson.dumps({"controllers": [told_of(manager, each, key) for each in controllers]})
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    page = _for_this_machine(show) if access is None else guarded(show, access, _get_the_object)
    return dict.fromkeys(_OBJECT, page)


def _get_the_object(request: web.Request) -> tuple[str, Place]:
    found = request.match_info
    resource, _, group = found["resource"].partition(".")
    return "get", Place(group, resource, found.get("namespace", ""), found["name"])


def _for_this_machine(page: Page) -> Page:
    """The same page, for who has called this machine by a name that is always its own.

    Else any page in a browser on this machine could read it, by a name that it lets point here.
    """

    async def show(request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415 - see manager.http.server

        host = request.headers.get("Host", "")
        named = split_address(host) or split_address(f"{host}:0")
        if named is None or not is_loopback(named[0]):
            return web.Response(status=_MISDIRECTED, text="not a name of this machine\n", headers=_HEADERS)
        return await page(request)

    return show


async def _resource(manager: Manager, controller: Controller) -> str:
    gvk = controller.primary
    if gvk is None:
        return ""
    try:
        mapping = await manager.mapper.resolve(gvk)
    except KubeError:
        return ""
    return f"{mapping.plural}.{gvk.group}" if gvk.group else mapping.plural


def told_of(manager: Manager, controller: Controller, key: ObjectKey) -> dict[str, Any]:
    """What a controller has done with an object, and does next, as JSON has it."""
    now = asyncio.get_running_loop().time()
    running, waiting = controller.running(key), controller.waiting(key)
    nothing: dict[str, Any] | None = None
    return {
        "controller": controller.name,
        "state": controller.state.value,
        "uid": _uid(manager, controller.primary, key),
        "running": nothing if running is None else run_told(running, now),
        "next": nothing
        if waiting is None
        else {
            "at": None if waiting.due is None else _moment(waiting.due, now),
            "why": [trigger_told(each, now) for each in waiting.triggers],
        },
        "runs": [run_told(each, now) for each in controller.runs.of(key)],
    }


def _uid(manager: Manager, gvk: GroupVersionKind | None, key: ObjectKey) -> str | None:
    """The object's, by which others see whether they speak of the same one."""
    for informer in manager.cache.informers:
        if informer.spec.gvk == gvk and (record := informer.get(key)) is not None:
            return record.uid
    return None


def run_told(run: Run, now: float) -> dict[str, Any]:
    """A run, as JSON has it; `now` is the loop's time."""
    return {
        "id": f"{run.id:016x}",
        "started": _moment(run.started, now),
        "waited": round(run.waited, 6),
        "seconds": round(run.seconds if run.outcome else now - run.started, 6),
        "attempt": run.attempt,
        "priority": run.priority,
        "outcome": run.outcome or "running",
        "why": run.why,
        "triggers": [trigger_told(each, now) for each in run.triggers],
        "triggered": run.triggered,
        "requests": [
            {
                "verb": each.verb,
                "path": each.path,
                **({"name": each.name} if each.name else {}),
                "code": each.code,
                "attempts": each.attempts,
                "seconds": round(each.seconds, 6),
            }
            for each in run.requests
        ],
        "requested": run.requested,
        "writes": run.writes,
        "spared": run.spared,
        "events": [
            {"type": each.type, "reason": each.reason, "message": each.message} for each in run.events
        ],
        "recorded": run.recorded,
        "error": run.error,
        "error_type": run.error_type,
        "failure": run.failure,
        "timed_out": run.timed_out,
        "next_in": run.next_in,
    }


def trigger_told(trigger: Trigger, now: float) -> dict[str, Any]:
    """What asked for a run, as JSON has it."""
    told: dict[str, Any] = {"why": trigger.why, "text": trigger.text}
    if trigger.at:
        told["at"] = _moment(trigger.at, now)
    if trigger.kind:
        told |= {"source": trigger.source, "kind": trigger.kind}
    if trigger.change:
        told |= {
            "change": trigger.change,
            "namespace": trigger.namespace,
            "name": trigger.name,
            "old": trigger.old,
            "new": trigger.new,
        }
    return told


def _moment(at: float, now: float) -> str:
    """A time of the loop's clock, as everybody knows it."""
    moment = clock.now() + timedelta(seconds=at - now)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
