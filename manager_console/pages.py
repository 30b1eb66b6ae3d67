"""The console's pages and actions, and who may use them. An open page polls for its live part."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache, partial
from itertools import starmap
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import orjson
from aiohttp.typedefs import Handler as Page
from aiohttp.web import AbstractRouteDef, Request, Response, get, post

from manager.api import GroupVersionKind, ObjectKey
from manager.cache import WatchSpec
from manager.cli.operators import owned_by, shared_out_by
from manager.controller import Controller
from manager.election.lease import ElectionConfig
from manager.events import ObjectReference
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.operator import AnyOperator
from manager.process.manager import Manager, Runnable
from manager.server.access import Access, Answers, Place, User
from manager.server.server import path_itself, who_asks
from manager.shards.owned import OwnedShards
from manager.telemetry.logs import get_logger
from manager.util.duration import parse_wait
from manager.util.loop import in_thread
from manager.util.rate_limit import Lines
from manager_console import web
from manager_console.changes import Changes
from manager_console.collect import Collector, bad_leaves, kinds_of, resource_name
from manager_console.explanation import (
    ManagerReport,
    ShardOwner,
    cached_record,
    controller_report,
    explain,
    to_objects,
    to_yaml,
)
from manager_console.overview import Rates, ReadinessCount, overview
from manager_console.search import STATES, Wanted, kinds, search
from manager_console.shard_holders import ShardHolders, ShardLeases
from manager_console.web import Asks, plain


def console_routes(
    manager: Manager,
    transport: Transport,
    operators: Sequence[AnyOperator],
    *,
    election: ElectionConfig,
    shards: OwnedShards | None,
    is_local: bool,
    has_debug_pages: bool,
) -> Sequence[AbstractRouteDef]:
    """Return the routes of the console of a manager that runs `operators`.

    `manager` runs what the console needs beside its pages. They are for all users of this machine if the
    console `is_local`, else for users with the right to each page.
    """
    holders = None
    if shards is not None:
        leases = ShardLeases(transport, namespace=election.namespace, name=election.name)
        holders = ShardHolders(leases, shards, shared_out_by(operators))
    console = Console(
        manager,
        transport,
        None if is_local else Access(transport, rng=manager.rng, audience=web.audience_of(manager.program)),
        owned=owned_by(operators),
        debugs=has_debug_pages,
        holders=holders,
        with_conditions={each.kind.gvk for each in operators if each.has_conditions},
    )
    manager.add(Runnable("console", console.changes.run))
    return [*starmap(get, console.pages().items()), *starmap(post, console.posts().items())]


OVERVIEW = "/console"
"""The path whose right `get` allows the pages that are not about one object."""

_OK, _SEE_OTHER, _NOT_FOUND, _CONFLICT, _BAD_GATEWAY = 200, 303, 404, 409, 502

_ACTIONS = {
    "reconcile": ("ReconcileRequested", "asked for a reconcile"),
    "pause": ("Paused", "paused it"),
    "resume": ("Resumed", "resumed it"),
}
"""By name, the reason of their Event, and what it says."""

_NO_NAME = "somebody on this machine"
_LINES_A_MINUTE, _USERS = 10, 64
"""Log lines about one user's actions, and the users that are told apart."""

_PART = "part"
"""The query that asks for the live part of a page alone."""

_FRESH = 0.5
"""Seconds for which a page is kept for others who see the same."""

_AT_ONCE = 4
"""The most pages that are made at a time."""

_REST, _LONGEST_REST = 4.0, 2.0
"""A user's next page waits so many times as long as the last one took of the processor; at most seconds."""

_log = get_logger("console")

Look = Callable[[Request], Awaitable[dict[str, Any]]]
"""Returns the values of a page's template."""


@dataclass(eq=False)
class Console:
    """The pages of a manager."""

    _manager: Manager
    _transport: Transport
    _access: Access | None
    """Without it, the pages are for all users of this machine."""

    _: KW_ONLY
    owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]] = field(default_factory=dict)
    """The kinds of children of each operator's kind."""

    with_conditions: Collection[GroupVersionKind] = ()
    """The kinds whose objects report their state in conditions."""

    debugs: bool = False
    """Whether there are the pages of `web.debug_pages`."""

    holders: ShardHolders | None = None

    def __post_init__(self) -> None:
        self.changes = Changes(self._manager.cache, self._end_pause)
        self._lines = lru_cache(_USERS)(lambda _user: Lines(per_minute=_LINES_A_MINUTE))
        self._rates, self._readiness_count = Rates(), ReadinessCount(self._manager)
        self._turns = _Turns()
        self._acts = 0  # after an action, pages are made anew
        self._made: Answers[Hashable, tuple[int, str]] = Answers(limit=64, keep_yes=_FRESH, keep_no=_FRESH)

    def pages(self) -> Mapping[str, Page]:
        """Return the pages by path; an object's are for users who may `get` it, others for `OVERVIEW`.

        `/api/objects/RESOURCE/NAMESPACE/NAME`, without a namespace for cluster-scoped kinds, is the report of
        an object as JSON; `/objects/...` is the page about it. RESOURCE is `pets.petstore.example.com`.
        """
        found = {
            "/": self._page(_get_overview, "overview.html", "main", self._look_around),
            "/search": self._page(_get_overview, "search.html", "found", self._search),
            "/static/{name}": web.allowed_only(web.static_file, self._access, None),
        }
        for path, page in web.debug_pages().items() if self.debugs else ():
            found[path] = web.allowed_only(page, self._access, path_itself)
        for path in "/{resource}/{name}", "/{resource}/{namespace}/{name}":
            found[f"/objects{path}"] = self._page(_get_object, "object.html", "main", self._object)
            found[f"/api/objects{path}"] = web.allowed_only(self._report, self._access, _get_object)
            found[f"/yaml{path}"] = web.allowed_only(self._yaml, self._access, _get_object)
        return found

    def posts(self) -> Mapping[str, Page]:
        """Return the actions by path, for users who may `update` the object, or all of its kind."""
        act = web.allowed_only(web.from_own_page(self._act), self._access, _update_object)
        return {
            "/objects/{resource}/{name}/{action}": act,
            "/objects/{resource}/{namespace}/{name}/{action}": act,
            "/controllers/{resource}/{action}": act,
        }

    def _page(self, asks: Asks, template: str, part: str, look: Look) -> Page:
        async def make(request: Request, user: User | None) -> tuple[int, str]:
            async with self._turns.of(user):
                shown = await look(request)
                if _PART in request.query:
                    return _OK, await web.render(template, shown, part)
                query = f"&{request.query_string}" if request.query_string else ""
                shown["live"] = f"{quote(request.path)}?{_PART}=1{query}"
                return shown.get("status", _OK), await web.render(template, shown)

        async def show(request: Request) -> Response:
            user = who_asks()
            same = user and user.by_any_token, request.path, request.query_string, self._acts
            status, text = await self._made.get(same, partial(make, request, user))
            return web.html(text, status)

        return web.allowed_only(show, self._access, asks)

    async def _report(self, request: Request) -> Response:
        key, controllers = _key(request), await self._controllers(request)
        if key is None or not controllers:
            return plain("no controller of this kind\n", _NOT_FOUND)
        # Of an object that another replica works on, this one may know nothing, not even the UID.
        cached = cached_record(self._manager, controllers[0].primary, key)
        uid = request.query.get("uid", "") if cached is None else cached.uid
        reports = [controller_report(self._manager, each, key) for each in controllers]
        report = ManagerReport(reports, await self._owners(controllers, uid))
        return plain(orjson.dumps(to_objects(report)).decode(), content_type="application/json")

    async def _yaml(self, request: Request) -> Response:
        key, gvk = _key(request), await self._kind(request)
        if key is None or gvk is None:
            return plain("no controller works on this kind\n", _NOT_FOUND)
        async with self._turns.of(who_asks()):
            try:
                raw = await self._collector().read(gvk, key)
            except KubeError as error:
                status = _NOT_FOUND if isinstance(error, NotFound) else _BAD_GATEWAY
                return plain(f"it cannot be read: {error}\n", status)
            return plain(await in_thread(lambda: to_yaml(raw, gvk)))

    async def _act(self, request: Request) -> Response:
        """Do what a person asks for with an object, or with all controllers of the kind if none is named."""
        found, key, controllers = request.match_info, _key(request), await self._controllers(request)
        action, resource = found["action"], found["resource"]
        self._acts += 1
        if not controllers or action not in _ACTIONS or (key is None and action == "reconcile"):
            return plain("there is no such action\n", _NOT_FOUND)
        if key is not None:
            cached = [cached_record(self._manager, each.primary, key) for each in controllers]
            for controller, record in zip(controllers, cached, strict=True):
                uid = None if record is None else record.uid
                if self.holders is not None and not self.holders.is_ours(controller.name, uid):
                    text = "this replica does not work on the object: ask the replica that does\n"
                    return plain(text, _CONFLICT)
            if not any(cached):
                return plain("there is no such object\n", _NOT_FOUND)
        user, (reason, did) = who_asks(), _ACTIONS[action]
        by, sharer = (_NO_NAME, "") if user is None else (user.name, user.sharer)
        for controller in controllers:
            queue = controller.queue
            if queue is None or queue.is_shut_down:
                return plain(f"the controller {controller.name} does not run in this replica\n", _CONFLICT)
            if key is None:
                queue.paused = action == "pause"
            elif action == "reconcile":
                controller.ask(key, by)
            else:
                (queue.pause if action == "pause" else queue.resume)(key)
            about = {"action": action, "controller": controller.name, "object": str(key), "by": by}
            self._lines(sharer).log(_log.info, "asked for in the console", **about)
            text = f"{by} {did} in the console of {controller.name}"
            self._manager.events.event(self._reference(controller, resource, key), "Normal", reason, text)
        return web.answer(_SEE_OTHER, {"Location": "/" if key is None else web.object_address(key, resource)})

    def _end_pause(self, spec: WatchSpec, key: ObjectKey) -> None:
        """Resume an object that has been deleted: a later one of its name is not paused."""
        for controller in self._manager.controllers:
            if controller.primary == spec.gvk and controller.queue is not None:
                controller.queue.resume(key)

    def _reference(self, controller: Controller, resource: str, key: ObjectKey | None) -> ObjectReference:
        """Refer to the object, or to the definition of the kind."""
        gvk = controller.primary
        if key is None or gvk is None:
            version, kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
            return ObjectReference(version, kind, namespace="", name=resource)
        cached = cached_record(self._manager, gvk, key)
        uid = "" if cached is None else cached.uid
        return ObjectReference(gvk.api_version, gvk.kind, key.namespace, key.name, uid)

    async def _look_around(self, _: Request) -> dict[str, Any]:
        replicas = None
        if self.holders is not None and await self._may_get(self.holders.place()):
            replicas = await self.holders.replicas()
        shown = await overview(self._manager, self._rates, self._readiness_count)
        return {**shown, "replicas": replicas}

    async def _search(self, request: Request) -> dict[str, Any]:
        query, problem = request.query, ""
        try:
            seconds = parse_wait(query.get("longer", "") or "1m")
        except ValueError as error:
            seconds, problem = 60.0, f"longer than: {error}"
        state = query.get("state", "")
        named = query.get("kind", ""), query.get("namespace", ""), query.get("name", "")
        wanted = Wanted(*named, state if state in STATES else "", seconds)
        known = kinds(self._manager)
        permitted = [each for each in known if await self._may_get(_place(each, wanted.namespace))]
        rows, more = await search(self._manager, wanted, permitted)
        return {
            "longer": query.get("longer", "") or "1m",
            "states": STATES,
            "problem": problem,
            "wanted": wanted,
            "kinds": permitted,
            "rows": rows,
            "more": more,
            "withheld": [each for each in known if each not in permitted],
            "shards": self._manager.coordinator.owned,
        }

    async def _object(self, request: Request) -> dict[str, Any]:
        key, gvk = _key(request), await self._kind(request)
        resource = request.match_info["resource"]
        shown: dict[str, Any] = {"resource": resource, "key": key, "kind": resource, "told": None, "runs": []}
        if key is None or gvk is None:
            return {**shown, "problem": "No controller works on this kind.", "status": _NOT_FOUND}
        controllers = await self._controllers(request)
        reports = [controller_report(self._manager, each, key) for each in controllers]
        shown |= {"kind": gvk.kind, "runs": reports}
        try:
            found = await self._collector().collect(gvk, key)
        except NotFound:
            return {**shown, "problem": "There is no such object.", "status": _NOT_FOUND}
        except KubeError as error:
            return {**shown, "problem": f"It cannot be read: {error}", "status": _BAD_GATEWAY}
        owners = await self._owners(controllers, found.root.uid)
        says = gvk in self.with_conditions
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
        return Collector(self._transport, mapper, self.owned, may_get=may_get, informers=caches)

    async def _kind(self, request: Request) -> GroupVersionKind | None:
        """Return the kind that a path names, among the kinds that operators reconcile or own."""
        wanted = request.match_info["resource"]
        primaries = (each.primary for each in self._manager.controllers)
        for gvk in dict.fromkeys((*primaries, *kinds_of(self.owned))):
            if gvk is not None and gvk.group == wanted.partition(".")[2]:
                with suppress(KubeError):
                    if resource_name(await self._manager.mapper.resolve(gvk)) == wanted:
                        return gvk
        return None

    async def _controllers(self, request: Request) -> list[Controller]:
        gvk = await self._kind(request)
        return [each for each in self._manager.controllers if gvk is not None and each.primary == gvk]

    async def _owners(self, controllers: Iterable[Controller], uid: str) -> list[ShardOwner]:
        """Return the replica that works on the object, with its name for users who may know it."""
        owners = list[ShardOwner]()
        for each in controllers if uid else ():
            if self.holders is None or (shard := self.holders.shard_of(each.name, uid)) is None:
                continue
            may_know = await self._may_get(self.holders.place(shard))
            owners.append(await self.holders.owner(each.name, shard, may_know=may_know))
        return owners

    async def _may_get(self, place: Place) -> bool:
        user = who_asks()
        return self._access is None or (user is not None and await self._access.may(user, "get", place))

    async def _may_see_change(self, spec: WatchSpec, key: ObjectKey) -> bool:
        return await self._may_get(_place(spec.resource, key.namespace, key.name))


class _Turns:
    """Turns for making pages: a few at a time, and one for each user, however many tokens the user has."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._users = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def of(self, user: User | None) -> AsyncIterator[None]:
        """Wait for a turn; the user's next turn is delayed, to give one user a fifth of the time."""
        mine = asyncio.Lock() if user is None else self._users.setdefault(user.sharer, asyncio.Lock())
        await mine.acquire()
        used = 0.0
        try:
            async with self._slots:
                began = time.thread_time()
                try:
                    yield
                finally:
                    used = time.thread_time() - began
        finally:
            rest = min(_REST * used, _LONGEST_REST)
            asyncio.get_running_loop().call_later(rest, mine.release)


def _key(request: Request) -> ObjectKey | None:
    found = request.match_info
    return ObjectKey(found.get("namespace", ""), found["name"]) if "name" in found else None


def _place(resource: str, namespace: str, name: str = "") -> Place:
    plural, _, group = resource.partition(".")
    return Place(group, plural, namespace, name)


def _get_overview(_: Request) -> tuple[str, str]:
    return "get", OVERVIEW


def _on_object(verb: str, request: Request) -> tuple[str, Place]:
    """Ask for a right to the object that a path names, or to all of a kind if it names none."""
    found = request.match_info
    return verb, _place(found["resource"], found.get("namespace", ""), found.get("name", ""))


_get_object, _update_object = partial(_on_object, "get"), partial(_on_object, "update")
