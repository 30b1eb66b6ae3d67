"""The console's pages and actions, and their access checks; an open page reloads its changing part."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from aiohttp.typedefs import Handler
from aiohttp.web import Request, Response, RouteDef, StreamResponse, get, post

from manager.api import GroupVersionKind, ObjectKey
from manager.cache import WatchSpec
from manager.cli.operators import owned_by
from manager.controller import Controller
from manager.events import ObjectReference
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.operator import AnyOperator
from manager.process.manager import Manager, Runnable
from manager.server.access import Access, Answers, Place
from manager.server.server import Asks, guarded, path_itself, who_asks
from manager.telemetry.logs import get_logger
from manager.util.address import is_loopback, split_address
from manager.util.duration import parse_wait
from manager.util.loop import in_thread
from manager.util.rate_limit import Lines
from manager_console import web
from manager_console.changes import Changes
from manager_console.diagnosis.collect import Collector, bad_leaves, kinds_of
from manager_console.diagnosis.explanation import (
    ManagerReport,
    ShardOwner,
    cached_record,
    controller_report,
    explain,
    to_objects,
    to_yaml,
)
from manager_console.overview import STATES, Overview, kinds, search
from manager_console.web import plain

if TYPE_CHECKING:
    from manager_console.diagnosis.shard_holders import ShardHolders

_OK, _SEE_OTHER, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _BAD_GATEWAY = 200, 303, 403, 404, 409, 502

_ACTIONS = {
    "reconcile": ("ReconcileRequested", "asked for a reconcile"),
    "pause": ("Paused", "paused it"),
    "resume": ("Resumed", "resumed it"),
}
"""For each action, the reason and the text of its Event."""

_LINES_A_MINUTE, _USERS = 10, 64
"""The maximum of log lines per minute about one user's actions, and of users that are distinguished."""

_PART = "part"
"""The query parameter that requests only the changing part of a page."""

_FRESH = 0.5
"""Seconds in which a page is reused for the same user or, in a local console, for all users."""

_AT_ONCE = 4
"""The maximum number of pages that are created at the same time."""

_REST, _LONGEST_REST = 16.0, 2.0
"""A slot stays closed for this multiple of its last page's CPU time, at most for this many seconds."""

_log = get_logger("console")

Look = Callable[[Request], Awaitable[dict[str, Any]]]
"""Returns the values of a page's template."""


def console_routes(
    manager: Manager,
    transport: Transport,
    operators: Sequence[AnyOperator],
    *,
    is_local: bool,
    has_debug_pages: bool,
) -> list[RouteDef]:
    """Return the routes of the console of a manager that runs `operators`.

    Background tasks of the console are added to the manager. If the console `is_local`, its pages are for
    all users of this machine, otherwise for users with the right to each page.
    """
    audience = web.audience_of(manager.program)
    access = None if is_local else Access(transport, rng=manager.rng, audience=audience)
    holders = None
    if manager.coordinator.owned is not None:
        from manager_console.diagnosis.shard_holders import holders_of  # noqa: PLC0415 - 5 ms: --shards alone

        holders = holders_of(manager.coordinator, transport, operators)
    console = Console(manager, transport, operators, access, holders)
    manager.add(Runnable("console", console.changes.run))
    return console.routes(has_debug_pages=has_debug_pages)


class Console:
    """The pages and actions of the console of one manager."""

    def __init__(
        self,
        manager: Manager,
        transport: Transport,
        operators: Sequence[AnyOperator],
        access: Access | None = None,
        holders: ShardHolders | None = None,
    ) -> None:
        """Create the pages; without `access`, all users of this machine may see them."""
        self.changes = Changes(manager.cache, self._end_pause)
        self._manager = manager
        self._transport = transport
        self._access = access
        self._holders = holders
        self._owned = owned_by(operators)
        self._with_conditions = {each.kind.gvk for each in operators if each.has_conditions}
        self._overview = Overview(manager)
        self._lines = lru_cache(_USERS)(lambda _user: Lines(per_minute=_LINES_A_MINUTE))
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._acts = 0  # incremented by actions, after which pages are created anew
        self._made: Answers[Hashable, tuple[int, str]] = Answers(limit=64, keep_yes=_FRESH, keep_no=_FRESH)

    def routes(self, *, has_debug_pages: bool = False) -> list[RouteDef]:
        """Return the routes of pages and actions.

        Pages of an object require `get` on the object, debug pages on their path, and other pages on the path
        `/console`. `/api/objects/RESOURCE/NAMESPACE/NAME` (without a namespace for cluster-scoped kinds) is
        the report of an object as JSON; `/objects/...` is its page. RESOURCE is `pets.petstore.example.com`.
        Actions require the right to `update` the object, or all objects of its kind.
        """
        admitted, act = self._admitted, self._admitted(self._act, partial(_on_object, "update"))
        may_get = partial(_on_object, "get")
        found = [
            get("/", self._page(_get_overview, "overview.html", "main", self._look_around)),
            get("/search", self._page(_get_overview, "search.html", "found", self._search)),
            get("/static/{name}", admitted(web.static_file, None)),
            post("/controllers/{resource}/{action}", act),
        ]
        for path in "/{resource}/{name}", "/{resource}/{namespace}/{name}":
            found += [
                get(f"/objects{path}", self._page(may_get, "object.html", "main", self._object)),
                get(f"/api/objects{path}", admitted(self._report, may_get)),
                get(f"/yaml{path}", admitted(self._yaml, may_get)),
                post(f"/objects{path}/{{action}}", act),
            ]
        debug = web.debug_pages().items() if has_debug_pages else ()
        return [*found, *(get(path, admitted(page, path_itself)) for path, page in debug)]

    def _admitted(self, handler: Handler, asks: Asks | None) -> Handler:
        """Return a handler that first checks the right that `asks` returns; without `asks`, none is needed.

        Without `access`, the request's Host must be a name of this machine. Otherwise a web page in a local
        browser could read the console through a host name that resolves to this machine.
        """
        if self._access is not None:
            return handler if asks is None else guarded(handler, self._access, asks)

        async def show(request: Request) -> StreamResponse:
            host = request.headers.get("Host", "")
            named = split_address(host) or split_address(f"{host}:0")
            if named is None or not is_loopback(named[0]):
                return plain("not a name of this machine\n", 421)
            return await handler(request)

        return show

    def _page(self, asks: Asks, template: str, part: str, look: Look) -> Handler:
        async def make(request: Request) -> tuple[int, str]:
            async with self._slot():
                shown = await look(request)
                if _PART in request.query:
                    return _OK, await web.render(template, shown, part)
                query = f"&{request.query_string}" if request.query_string else ""
                shown["live"] = f"{quote(request.path)}?{_PART}=1{query}"
                return shown.get("status", _OK), await web.render(template, shown)

        async def show(request: Request) -> Response:
            user = who_asks()
            same = user and user.by_any_token, request.path, request.query_string, self._acts
            status, text = await self._made.get(same, partial(make, request))
            return web.html(text, status)

        return self._admitted(show, asks)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Limit how many pages are rendered at once; a slot becomes free a while after its page is ready."""
        await self._slots.acquire()
        began = time.thread_time()
        try:
            yield
        finally:
            rest = min(_REST * (time.thread_time() - began), _LONGEST_REST)
            asyncio.get_running_loop().call_later(rest, self._slots.release)

    async def _report(self, request: Request) -> Response:
        place, key = _named(request)
        controllers = self._controllers(await self._kind(place))
        if not controllers:
            return plain("no controller of this kind\n", _NOT_FOUND)
        # If another replica owns the object, this one may know nothing about it, not even its UID.
        cached = cached_record(self._manager, controllers[0].primary, key)
        uid = request.query.get("uid", "") if cached is None else cached.uid
        reports = [controller_report(self._manager, each, key) for each in controllers]
        report = ManagerReport(reports, await self._owners(controllers, uid))
        return plain(orjson.dumps(to_objects(report)).decode(), content_type="application/json")

    async def _yaml(self, request: Request) -> Response:
        place, key = _named(request)
        gvk = await self._kind(place)
        if gvk is None:
            return plain("no controller works on this kind\n", _NOT_FOUND)
        async with self._slot():
            try:
                raw = await self._collector().read(gvk, key)
            except KubeError as error:
                status = _NOT_FOUND if isinstance(error, NotFound) else _BAD_GATEWAY
                return plain(f"the object cannot be read: {error}\n", status)
            return plain(await in_thread(lambda: to_yaml(raw, gvk)))

    async def _act(self, request: Request) -> Response:
        _, _, origin = request.headers.get("Origin", "").partition("://")
        if not origin or origin != request.headers.get("Host"):  # browsers send it
            return plain("not from a page of this console\n", _FORBIDDEN)
        self._acts += 1
        place, key = _named(request)
        resource, action = request.match_info["resource"], request.match_info["action"]
        gvk = await self._kind(place)
        controllers = self._controllers(gvk)
        is_known = action in _ACTIONS and (key.name or action != "reconcile")
        if gvk is None or not controllers or not is_known:
            return plain("there is no such action\n", _NOT_FOUND)
        version, kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
        about = ObjectReference(version, kind, namespace="", name=resource)
        if key.name:
            cached = cached_record(self._manager, gvk, key)
            uid = None if cached is None else cached.uid
            if self._holders is not None and not all(
                self._holders.is_ours(each.name, uid) for each in controllers
            ):
                text = "this replica does not work on the object: ask the replica that does\n"
                return plain(text, _CONFLICT)
            if uid is None:
                return plain("there is no such object\n", _NOT_FOUND)
            about = ObjectReference(gvk.api_version, gvk.kind, key.namespace, key.name, uid)
        user, (reason, did) = who_asks(), _ACTIONS[action]
        by, sharer = ("somebody on this machine", "") if user is None else (user.name, user.sharer)
        for controller in controllers:
            queue = controller.queue
            if queue is None or queue.is_shut_down:
                return plain(f"the controller {controller.name} does not run in this replica\n", _CONFLICT)
            if not key.name:
                queue.paused = action == "pause"
            elif action == "reconcile":
                controller.ask(key, by)
            else:
                (queue.pause if action == "pause" else queue.resume)(key)
            told = {"action": action, "controller": controller.name, "object": key.name and str(key)}
            self._lines(sharer).log(_log.info, "action requested in the console", **told, by=by)
            text = f"{by} {did} in the console of {controller.name}"
            self._manager.events.event(about, "Normal", reason, text)
        return web.answer(_SEE_OTHER, {"Location": web.object_address(key, resource) if key.name else "/"})

    def _end_pause(self, spec: WatchSpec, key: ObjectKey) -> None:
        for controller in self._controllers(spec.gvk):
            if controller.queue is not None:
                controller.queue.resume(key)

    async def _look_around(self, _: Request) -> dict[str, Any]:
        replicas = None
        if self._holders is not None and await self._may_get(self._holders.place()):
            replicas = await self._holders.replicas()
        return {**await self._overview.look(), "replicas": replicas}

    async def _search(self, request: Request) -> dict[str, Any]:
        query = {
            name: request.query.get(name, "") for name in ("kind", "namespace", "name", "state", "longer")
        }
        query["longer"] = query["longer"] or "1m"
        seconds, problem = 60.0, ""
        try:
            seconds = parse_wait(query["longer"])
        except ValueError as error:
            problem = f"longer than: {error}"
        known = kinds(self._manager)
        permitted = [each for each in known if await self._may_get(_place(each, query["namespace"]))]
        rows, more = await search(self._manager, permitted, query, seconds)
        return {
            "query": query,
            "states": STATES,
            "problem": problem,
            "kinds": permitted,
            "rows": rows,
            "more": more,
            "withheld": [each for each in known if each not in permitted],
            "shards": self._manager.coordinator.owned,
        }

    async def _object(self, request: Request) -> dict[str, Any]:
        place, key = _named(request)
        gvk, resource = await self._kind(place), request.match_info["resource"]
        shown: dict[str, Any] = {"resource": resource, "key": key, "kind": resource, "told": None, "runs": []}
        if gvk is None:
            return {**shown, "problem": "No controller works on this kind.", "status": _NOT_FOUND}
        controllers = self._controllers(gvk)
        reports = [controller_report(self._manager, each, key) for each in controllers]
        shown |= {"kind": gvk.kind, "runs": reports}
        try:
            found = await self._collector().collect(gvk, key)
        except NotFound:
            return {**shown, "problem": "There is no such object.", "status": _NOT_FOUND}
        except KubeError as error:
            return {**shown, "problem": f"The object cannot be read: {error}", "status": _BAD_GATEWAY}
        owners = await self._owners(controllers, found.root.uid)
        says = gvk in self._with_conditions
        return {
            **shown,
            "problem": "",
            "told": explain(found, reports, has_conditions=says, owners=owners),
            "below": bad_leaves(found.root),
            "elsewhere": any(each.here is False for each in owners),
            "changes": await self.changes.of(found.root.uid, self._may_see_change),
        }

    def _collector(self) -> Collector:
        may_get = None if self._access is None else self._may_get
        caches, mapper = self._manager.cache.informers, self._manager.mapper
        return Collector(self._transport, mapper, self._owned, may_get=may_get, informers=caches)

    async def _kind(self, place: Place) -> GroupVersionKind | None:
        primaries = (each.primary for each in self._manager.controllers)
        for gvk in dict.fromkeys((*primaries, *kinds_of(self._owned))):
            if gvk is not None and gvk.group == place.group:
                with suppress(KubeError):
                    if (await self._manager.mapper.resolve(gvk)).plural == place.resource:
                        return gvk
        return None

    def _controllers(self, gvk: GroupVersionKind | None) -> list[Controller]:
        return [each for each in self._manager.controllers if gvk is not None and each.primary == gvk]

    async def _owners(self, controllers: Sequence[Controller], uid: str) -> list[ShardOwner]:
        """Return each controller's owner of the object, with the replica's name for users who may know it."""
        owners = list[ShardOwner]()
        for each in controllers if uid else ():
            if self._holders is None or (shard := self._holders.shard_of(each.name, uid)) is None:
                continue
            may_know = await self._may_get(self._holders.place(shard))
            owners.append(await self._holders.owner(each.name, shard, may_know=may_know))
        return owners

    async def _may_get(self, place: Place) -> bool:
        user = who_asks()
        return self._access is None or (user is not None and await self._access.may(user, "get", place))

    async def _may_see_change(self, spec: WatchSpec, key: ObjectKey) -> bool:
        return await self._may_get(_place(spec.resource, *key))


def _named(request: Request) -> tuple[Place, ObjectKey]:
    found = request.match_info
    key = ObjectKey(found.get("namespace", ""), found.get("name", ""))
    return _place(found["resource"], *key), key


def _place(resource: str, namespace: str, name: str = "") -> Place:
    plural, _, group = resource.partition(".")
    return Place(group, plural, namespace, name)


def _get_overview(_: Request) -> tuple[str, str]:
    return "get", "/console"


def _on_object(verb: str, request: Request) -> tuple[str, Place]:
    return verb, _named(request)[0]
