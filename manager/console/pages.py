"""The console's pages: who may see them, how they are kept current, and what is on them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from weakref import WeakValueDictionary

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from manager.address import is_loopback, split_address
from manager.api import GroupVersionKind, ObjectKey
from manager.cache import CacheEvent
from manager.console.census import Census
from manager.console.changes import Changes
from manager.console.debug import debug_pages
from manager.console.following import Following, Watches
from manager.console.live import Feed, Feeds, Subject
from manager.console.overview import Rates, overview
from manager.console.owners import Owners
from manager.console.people import LinesByUser, sharer
from manager.console.search import STATES, Search, Wanted, kinds
from manager.console.told import moment, told_of, uid_of
from manager.controller import Controller
from manager.controller.queue import WorkQueue
from manager.duration import format_duration, parse_wait
from manager.events import ObjectReference
from manager.explain.looking import Found, Looker, bad_leaves, listed_alone
from manager.explain.telling import ago, explanation, next_run, said, whose
from manager.kube.errors import KubeError, NotFound
from manager.kube.transport import Transport
from manager.logs import get_logger, on_one_line, shortened
from manager.manager import Manager
from manager.runs import Run
from manager.server.access import Access
from manager.server.answers import Answers
from manager.server.guard import guarded, path_itself, who_asks
from manager.server.reviews import Place, User

if TYPE_CHECKING:
    from jinja2 import Environment, Template

OVERVIEW = "/console"
"""The path whose right `get` allows the pages that are not about one object."""

_log = get_logger("console")

_HERE = Path(__file__).parent
_OK, _SEE_OTHER, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _MISDIRECTED, _BAD_GATEWAY = (
    200,
    303,
    403,
    404,
    409,
    421,
    502,
)

_ACTIONS = {
    "reconcile": ("ReconcileRequested", "asked for a reconcile"),
    "pause": ("Paused", "paused it"),
    "resume": ("Resumed", "resumed it"),
}
"""By name, the reason of their Event, and what it says."""

_SOMEBODY = "somebody on this machine"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_POLICY = {
    **_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with less, no Origin would come with a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

_LIVE = "live"
"""The query that asks for a page's updates as a stream."""

_STREAM = 60.0
"""Seconds of a stream. Then the browser asks again, and its rights are checked again."""

_OVERVIEW_TICK, _OBJECT_TICK, _SEARCH_TICK = 1.0, 3.0, 1.0
"""Seconds after which a page is rendered again without a change, because it shows ages."""

_STOPPING = 1.0
"""Seconds between two checks whether the manager stops."""

_FRESH = 0.25
"""Seconds for which what was read for a page is used for others."""

_REMEMBERED = 64
"""The most pages, and users, that are remembered."""

_LOOKS = 4
"""The most objects that are read at a time, each with its children."""

_ACTIONS_TOLD = 10
"""Log lines a minute about one user's actions."""

_LONGEST = 2000
"""Characters that are shown of a text."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class _View(NamedTuple):
    """A page that is kept current."""

    template: str
    part: str
    """The template's block that is sent after a change."""

    look: Callable[[web.Request], Coroutine[Any, Any, dict[str, Any]]]
    """Returns the template's values when the page is opened."""

    subject: Callable[[web.Request], Awaitable[Subject]]
    """What is rendered again after changes."""


class Console:
    """The pages of a manager."""

    def __init__(
        self,
        manager: Manager,
        transport: Transport,
        access: Access | None,
        *,
        owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]] | None = None,
        with_conditions: Iterable[GroupVersionKind] = (),
        debugs: bool = False,
        owners: Owners | None = None,
    ) -> None:
        """Without `access` it is for everybody on this machine.

        `transport` reads what is in no cache. `owned` says for kinds of operators which kinds their objects
        own, and `with_conditions` which of them say in conditions how they are. `debugs` is whether there are
        pages about the process's tasks and its profile. `owners` is there where replicas share the work.
        """
        self._debugs = debugs
        self._owners = owners
        self._manager = manager
        self._transport = transport
        self._access = access
        self._owned = owned or {}
        self._with_conditions = set(with_conditions)
        self.changes = Changes(manager.cache)
        self._rates, self._census = Rates(manager), Census(manager)
        self._paused: dict[tuple[str, ObjectKey], Callable[[], None]] = {}
        self._feeds, self._watches = Feeds(), Watches(transport, manager.cache)
        self._acts = LinesByUser(per_minute=_ACTIONS_TOLD, most=_REMEMBERED)
        self._environment: Environment | None = None
        self._templates: dict[str, Template] = {}
        self._files: dict[str, bytes] = {}
        self._version = ""
        self._looks = asyncio.Semaphore(_LOOKS)
        self._looking = WeakValueDictionary[str, asyncio.Lock]()
        """By user, who waits to read an object: one user may have many tokens."""
        self._shared: Answers[object, Any] = Answers(limit=_REMEMBERED, keep_yes=_FRESH, keep_no=_FRESH)

    def pages(self) -> Mapping[str, Handler]:
        """By path. An object's is for those who may `get` it, the others for those who may `get` `OVERVIEW`.

        `/api/objects/RESOURCE/NAMESPACE/NAME`, or without a namespace for what is in none, has what the
        controllers of that kind have done with the object, as JSON; and `/objects/...` is the page about it.
        RESOURCE is as in `pets.petstore.example.com`.
        """
        by_object = self._for(_get_the_object)
        in_general = self._for(_get_the_overview)
        page = self._page
        seen = by_object(page(_View("object.html", "main", self._look_at_object, self._object)))
        found = {
            "/": in_general(page(_View("overview.html", "main", self._look_around, self._overview))),
            "/search": in_general(page(_View("search.html", "found", self._find, self._search))),
            "/static/{name}": self._for(None)(self._file),
        }
        if self._debugs:
            found |= {path: self._for(path_itself)(page) for path, page in debug_pages().items()}
        for path in "/{resource}/{name}", "/{resource}/{namespace}/{name}":
            found[f"/objects{path}"] = seen
            found[f"/api/objects{path}"] = by_object(self._report)
        return found

    def posts(self) -> Mapping[str, Handler]:
        """The actions by path, for those who may `update` the object, or all of its kind."""
        return {
            "/objects/{resource}/{name}/{action}": self._for(_update_the_object)(_from_here(self._act)),
            "/objects/{resource}/{namespace}/{name}/{action}": self._for(_update_the_object)(
                _from_here(self._act)
            ),
            "/controllers/{resource}/{action}": self._for(_update_the_kind)(_from_here(self._act)),
        }

    def _for(
        self, asks: Callable[[web.Request], tuple[str, str | Place]] | None
    ) -> Callable[[Handler], Handler]:
        """Show a page only to those who have the right that it asks for; None is for everybody."""

        def keep(page: Handler) -> Handler:
            if self._access is None:
                return _for_this_machine(page)
            return page if asks is None else guarded(page, self._access, asks)

        return keep

    # What is on the pages.

    async def _report(self, request: web.Request) -> web.StreamResponse:
        key, controllers = _key(request), await self._controllers(request)
        if key is None or not controllers:
            return web.Response(status=_NOT_FOUND, text="no controller of this kind\n", headers=_HEADERS)
        told = {"controllers": [told_of(self._manager, each, key) for each in controllers]}
        # Of an object that another replica works on, this one may know nothing, not even the UID.
        uid = uid_of(self._manager, controllers[0].primary, key) or request.query.get("uid", "")
        body = orjson.dumps({**told, "owners": await self._owned_by(controllers, uid)})
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _owned_by(self, controllers: Iterable[Controller], uid: str) -> list[dict[str, Any]]:
        """Which replica works on the object, for those who may know it."""
        owners, found = self._owners, []
        for each in controllers if owners is not None and uid else ():
            assert owners is not None
            if (number := owners.number_of(each.name, uid)) is not None:
                may = await self._may_get(owners.place(number))
                found.append(await owners.told(each.name, number, may=may))
        return found

    def _is_ours(self, controller: Controller, key: ObjectKey) -> bool:
        uid = uid_of(self._manager, controller.primary, key)
        return self._owners is None or self._owners.is_ours(controller.name, uid)

    async def _controllers(self, request: web.Request) -> list[Controller]:
        wanted = request.match_info["resource"]
        return [each for each in self._manager.controllers if await _resource(self._manager, each) == wanted]

    async def _act(self, request: web.Request) -> web.StreamResponse:
        found = request.match_info
        action = found["action"]
        key = _key(request)
        controllers = await self._controllers(request)
        if not controllers or action not in _ACTIONS or (key is None and action == "reconcile"):
            return web.Response(status=_NOT_FOUND, text="there is no such action\n", headers=_HEADERS)
        if key is not None and not all(self._is_ours(each, key) for each in controllers):
            text = (
                "this replica does not work on such an object: if there is one, ask the replica that does\n"
            )
            return web.Response(status=_CONFLICT, text=text, headers=_HEADERS)
        if key is not None and not any(_is_there(self._manager, each, key) for each in controllers):
            return web.Response(status=_NOT_FOUND, text="there is no such object\n", headers=_HEADERS)
        user = who_asks()
        by = _SOMEBODY if user is None else user.name
        for controller in controllers:
            if controller.queue is None or controller.queue.is_shut_down:
                text = f"the controller {controller.name} does not run in this replica\n"
                return web.Response(status=_CONFLICT, text=text, headers=_HEADERS)
            match action:
                case "reconcile" if key is not None:
                    controller.ask(key, by)
                case "pause" if key is not None:
                    self._pause(controller, controller.queue, key)
                case "resume" if key is not None:
                    self._resume(controller, controller.queue, key)
                case _:
                    controller.queue.halted = action == "pause"
            self._note(controller, found["resource"], key, action, by)
        where = "/" if key is None else _address(key, found["resource"])
        return web.Response(status=_SEE_OTHER, headers={**_HEADERS, "Location": where})

    def _pause(self, controller: Controller, queue: WorkQueue[ObjectKey], key: ObjectKey) -> None:
        """Until it is resumed, or gone: another one of its name has nothing to do with that."""

        def hear(event: CacheEvent) -> None:
            if event.key == key and event.new is None:
                self._resume(controller, queue, key)

        if not queue.is_held(key):
            queue.hold(key)
            caches = [each for each in self._manager.cache.informers if each.spec.gvk == controller.primary]
            left = ExitStack()
            for each in caches:
                left.callback(each.subscribe(hear, replay=False))
            self._paused[controller.name, key] = left.close

    def _resume(self, controller: Controller, queue: WorkQueue[ObjectKey], key: ObjectKey) -> None:
        queue.let_go(key)
        if (leave := self._paused.pop((controller.name, key), None)) is not None:
            leave()

    def _note(
        self, controller: Controller, resource: str, key: ObjectKey | None, action: str, by: str
    ) -> None:
        reason, did = _ACTIONS[action]
        about_it = {"action": action, "controller": controller.name, "object": str(key), "by": by}
        self._acts.of(sharer(who_asks())).tell(_log.info, "asked for in the console", **about_it)
        gvk = controller.primary
        if gvk is None:
            return
        if key is None:
            about = ObjectReference(
                "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespace="", name=resource
            )
        else:
            uid = uid_of(self._manager, gvk, key) or ""
            about = ObjectReference(gvk.api_version, gvk.kind, key.namespace, key.name, uid)
        text = f"{by} {did} in the console of {controller.name}"
        self._manager.events.event(about, "Normal", reason, text)

    async def _look_around(self, _: web.Request) -> dict[str, Any]:
        told_whose = await self._may_know_whose()
        look = partial(self._numbers, told_whose)
        shown: dict[str, Any] = await self._shared.get((OVERVIEW, told_whose), look)
        return shown

    async def _may_know_whose(self) -> bool:
        """Whether the user may know which replica holds which ranges."""
        return self._owners is not None and await self._may_get(self._owners.place())

    async def _numbers(self, told_whose: bool) -> dict[str, Any]:
        replicas = await self._owners.replicas() if self._owners is not None and told_whose else None
        presented = self._manager.certificates
        valid = {name: await asyncio.to_thread(each.valid) for name, each in presented.items()}
        known = {name: each for name, each in valid.items() if each is not None}
        with self._feeds.allowance.spending():
            shown = overview(self._manager, self._rates, self._census, known)
        return {**shown, "replicas": replicas}

    async def _overview(self, _: web.Request) -> Subject:
        manager, told_whose = self._manager, await self._may_know_whose()

        def glance() -> Hashable:
            queues = [each.queue for each in manager.controllers if each.queue is not None]
            return (
                self._rates.heard,
                tuple((len(each), each.delayed, each.running, each.halted) for each in queues),
                tuple(each.changed_at for each in manager.cache.informers),
                manager.leader,
                manager.leadership.deadline > asyncio.get_running_loop().time(),
            )

        @asynccontextmanager
        async def kept() -> AsyncIterator[None]:
            with self._rates.kept(), self._census.kept():
                yield

        look = partial(self._numbers, told_whose)
        return Subject((OVERVIEW, told_whose), _OVERVIEW_TICK, look, glance, kept)

    async def _find(self, request: web.Request) -> dict[str, Any]:
        wanted, problem = _wanted(request)
        return {
            "longer": request.query.get("longer", "") or "1m",
            "states": STATES,
            "problem": problem,
            **await self._found(Search(self._manager, wanted), wanted),
        }

    async def _found(self, search: Search, wanted: Wanted) -> dict[str, Any]:
        known = kinds(self._manager)
        permitted = [each for each in known if await self._may_get(_place(each, wanted.namespace))]
        rows, more = await search.look(permitted)
        withheld = [each for each in known if each not in permitted]
        return {
            "wanted": wanted,
            "kinds": permitted,
            "rows": rows,
            "more": more,
            "withheld": withheld,
            "ranges": self._manager.ranges,
        }

    async def _search(self, request: web.Request) -> Subject:
        wanted, _ = _wanted(request)
        search = Search(self._manager, wanted)

        @asynccontextmanager
        async def kept() -> AsyncIterator[None]:
            with search.kept():
                yield

        look = partial(self._found, search, wanted)
        return Subject((_who_sees(), wanted), _SEARCH_TICK, look, search.glance, kept)

    async def _look(self, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        """Read an object: one at a time for each user, and a few for all, because children may be many."""
        user = who_asks()
        mine = asyncio.Lock() if user is None else self._looking.setdefault(sharer(user), asyncio.Lock())
        async with mine, self._looks:
            await self._feeds.allowance.ready()
            return await self._feeds.allowance.paid(self._looked_at(gvk, key))

    async def _looked_at(self, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        mapper = self._manager.mapper
        known = _cached(self._manager, gvk, key)
        if known is None and self._owners is not None:
            known = await listed_alone(self._transport, mapper, gvk, key)
        may_get = None if self._access is None else self._may_get
        looker = Looker(self._transport, mapper, self._owned, may_get=may_get, known=known)
        return await looker.look(gvk, key)

    async def _object(self, request: web.Request) -> Subject:
        manager, key, resource = self._manager, _key(request), request.match_info["resource"]
        following = Following(self._watches, sharer(who_asks()))
        controllers = await self._controllers(request)
        ended = 0

        def hear(run: Run) -> None:
            nonlocal ended
            ended += run.key == key

        def glance() -> Hashable:
            states = () if key is None else tuple(_state_of(manager, each, key) for each in controllers)
            return ended, following.heard, states

        @asynccontextmanager
        async def kept() -> AsyncIterator[None]:
            manager.history.listeners.append(hear)
            try:
                async with following.kept():
                    yield
            finally:
                manager.history.listeners.remove(hear)

        look = partial(self._look_at_object, request, following)
        return Subject((_who_sees(), resource, key), _OBJECT_TICK, look, glance, kept)

    async def _look_at_object(
        self, request: web.Request, following: Following | None = None
    ) -> dict[str, Any]:
        key, controllers = _key(request), await self._controllers(request)
        resource = request.match_info["resource"]
        shown: dict[str, Any] = {
            "resource": resource,
            "key": key,
            "told": None,
            "problem": "",
            "changes": [],
            "below": [],
            "elsewhere": False,
        }
        if key is None or not controllers or (gvk := controllers[0].primary) is None:
            return {
                **shown,
                "kind": resource,
                "problem": "No controller works on this kind.",
                "status": _NOT_FOUND,
                "runs": [],
            }
        told = [told_of(self._manager, each, key) for each in controllers]
        shown |= {"kind": gvk.kind, "runs": told}
        try:
            (await self._manager.mapper.resolve(gvk)).path(*key)
        except ValueError:  # that is no name, or has no namespace
            return {**shown, "problem": "There is no such object.", "status": _NOT_FOUND}
        except KubeError as error:
            return {**shown, "problem": f"It cannot be read: {error}", "status": _BAD_GATEWAY}
        try:
            look = partial(self._look, gvk, key)
            if following is None:
                found = await self._shared.get((_who_sees(), gvk, key), look)
            else:
                began = asyncio.get_running_loop().time()
                found = await look()
                following.follow(found, began)
        except NotFound:
            return {**shown, "problem": "There is no such object.", "status": _NOT_FOUND}
        except KubeError as error:
            return {**shown, "problem": f"It cannot be read: {error}", "status": _BAD_GATEWAY}
        owners = await self._owned_by(controllers, found.root.uid)
        shown["elsewhere"] = any(each["here"] is False for each in owners)
        says = gvk in self._with_conditions
        shown["told"] = explanation(found, told, says=says, manager="", owners=owners)
        shown["below"] = [
            (each, {"reason": each.verdict[1], "message": each.verdict[2]}) for each in bad_leaves(found.root)
        ]
        async with aclosing(self.changes.of(found.root.uid)) as changes:
            async for each in changes:
                if await self._may_get(_place(each.spec.resource, each.key.namespace, each.key.name)):
                    shown["changes"].append((each, moment(each.at, asyncio.get_running_loop().time())))
                await asyncio.sleep(0)  # each may have taken a millisecond
        return shown

    async def _may_get(self, place: Place) -> bool:
        user = who_asks()
        return self._access is None or (user is not None and await self._access.may(user, "get", place))

    # How they are shown.

    def _page(self, view: _View) -> Handler:
        async def show(request: web.Request) -> web.StreamResponse:
            template = self._templates.get(view.template) or await self._compiled(view.template)
            if _LIVE in request.query:
                subject = await view.subject(request)
                feed = self._feeds.of(subject, partial(_part_of, template, view.part))
                return await self._stream(request, feed)
            query = f"&{request.query_string}" if request.query_string else ""
            await self._feeds.allowance.ready()
            looked_up = await self._feeds.allowance.paid(view.look(request))
            shown = {"live": f"{quote(request.path)}?{_LIVE}=1{query}", **looked_up}
            with self._feeds.allowance.spending():
                text = template.render(version=self._version, **shown)
            status = shown.get("status", _OK)
            return web.Response(status=status, text=text, content_type="text/html", headers=_POLICY)

        return show

    async def _stream(self, request: web.Request, feed: Feed) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        number, ends = 0, loop.time() + _STREAM
        work = asyncio.create_task(feed.work(), name="console-feed")
        news = asyncio.create_task(feed.after(number), name="console-news")
        try:
            while loop.time() < ends and not self._manager.stopping:
                await asyncio.wait([work, news], timeout=_STOPPING, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()  # raises; before the first text, a fault is told by a status
                if news.done():
                    number, text = news.result()
                    news = asyncio.create_task(feed.after(number), name="console-news")
                    if not response.prepared:
                        await response.prepare(request)
                        await response.write(b"retry: 500\n\n")
                    await response.write(_event(text))
        finally:
            work.cancel()
            news.cancel()
            await asyncio.wait([work, news])
        return response

    async def _compiled(self, name: str) -> Template:
        """A template, compiled at its first use."""
        environment = await self._opened()
        template = self._templates[name] = await asyncio.to_thread(environment.get_template, name)
        return template

    async def _opened(self) -> Environment:
        """Templates and static files, read at their first use."""
        if self._environment is None:
            files, environment = await asyncio.to_thread(_read)
            self._version = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
            self._files, self._environment = files, environment
        return self._environment

    async def _file(self, request: web.Request) -> web.StreamResponse:
        await self._opened()
        name = request.match_info["name"]
        if name not in self._files:
            return web.Response(status=_NOT_FOUND, text="no such file\n", headers=_HEADERS)
        headers = {**_POLICY, "Cache-Control": "public, max-age=86400"}  # its address has a version
        kind = _TYPES[Path(name).suffix]
        return web.Response(body=self._files[name], content_type=kind, charset="utf-8", headers=headers)


def _who_sees() -> User | None:
    """Equal for all who see the same page."""
    user = who_asks()
    return None if user is None else user.by_any_token


def _wanted(request: web.Request) -> tuple[Wanted, str]:
    """The search in a query, and what is wrong with it."""
    query, problem = request.query, ""
    try:
        seconds = parse_wait(query.get("longer", "") or "1m")
    except ValueError as error:
        seconds, problem = 60.0, f"longer than: {error}"
    state = query.get("state", "")
    named = query.get("kind", ""), query.get("namespace", ""), query.get("name", "")
    return Wanted(*named, state if state in STATES else "", seconds), problem


def _state_of(manager: Manager, controller: Controller, key: ObjectKey) -> Hashable:
    """What a controller is about to do with an object, and which state of it is known."""
    running, waiting, queue = controller.running(key), controller.waiting(key), controller.queue
    versions = [
        record.version
        for each in manager.cache.informers
        if each.spec.gvk == controller.primary and (record := each.get(key)) is not None
    ]
    return (
        running and running.id,
        waiting and (waiting.due, waiting.triggered),
        queue is not None and (queue.halted or queue.is_held(key)),
        tuple(versions),
    )


def _cached(manager: Manager, gvk: GroupVersionKind, key: ObjectKey) -> bytes | None:
    """An object as it is in a cache: a manager may watch its kinds, and need not have the right to get them.

    Raises NotFound where it would be there.
    """
    gone = False
    for informer in manager.cache.informers:
        if informer.spec.gvk != gvk or informer.spec.projection != "full":
            continue
        if (record := informer.get(key)) is not None:
            return None if record.is_cut else record.raw
        gone = gone or informer.has_all_of(key.namespace)
    if gone:
        raise NotFound(_NOT_FOUND, "NotFound", "it is not in the cache")
    return None


def _is_there(manager: Manager, controller: Controller, key: ObjectKey) -> bool:
    return controller.primary is not None and uid_of(manager, controller.primary, key) is not None


def _key(request: web.Request) -> ObjectKey | None:
    """The object that a path names, if it names one."""
    found = request.match_info
    return ObjectKey(found.get("namespace", ""), found["name"]) if "name" in found else None


def _get_the_object(request: web.Request) -> tuple[str, Place]:
    found = request.match_info
    return "get", _place(found["resource"], found.get("namespace", ""), found["name"])


def _get_the_overview(_: web.Request) -> tuple[str, str]:
    return "get", OVERVIEW


def _place(resource: str, namespace: str, name: str = "") -> Place:
    plural, _, group = resource.partition(".")
    return Place(group, plural, namespace, name)


def _for_this_machine(page: Handler) -> Handler:
    """The same page, only for requests with a host name of this machine.

    Else any page in a browser on this machine could read it, by a name that it lets point here.
    """

    async def show(request: web.Request) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        named = split_address(host) or split_address(f"{host}:0")
        if named is None or not is_loopback(named[0]):
            return web.Response(status=_MISDIRECTED, text="not a name of this machine\n", headers=_HEADERS)
        return await page(request)

    return show


def _update_the_object(request: web.Request) -> tuple[str, Place]:
    return "update", _get_the_object(request)[1]


def _update_the_kind(request: web.Request) -> tuple[str, Place]:
    return "update", _place(request.match_info["resource"], "")


def _from_here(page: Handler) -> Handler:
    """The same, only for requests from our own pages: other sites cannot make a browser send them."""

    async def act(request: web.Request) -> web.StreamResponse:
        _, _, origin = request.headers.get("Origin", "").partition("://")
        if not origin or origin != request.headers.get("Host"):
            return web.Response(status=_FORBIDDEN, text="not from a page of this console\n", headers=_HEADERS)
        return await page(request)

    return act


async def _resource(manager: Manager, controller: Controller) -> str:
    gvk = controller.primary
    if gvk is None:
        return ""
    try:
        mapping = await manager.mapper.resolve(gvk)
    except KubeError:
        return ""
    return f"{mapping.plural}.{gvk.group}" if gvk.group else mapping.plural


def _read() -> tuple[dict[str, bytes], Environment]:
    # Imported only where somebody looks: it costs 3 MB.
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415

    files = {path.name: path.read_bytes() for path in (_HERE / "static").iterdir() if path.suffix in _TYPES}
    templates = {path.name: path.read_text() for path in (_HERE / "templates").iterdir()}
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_harmless,
    )
    environment.filters |= {
        "ago": ago,
        "said": said,
        "next_run": next_run,
        "whose": whose,
        "taking": _taking,
        "bytes": _bytes,
        "address": _address,
    }
    return dict(sorted(files.items())), environment


def _harmless(value: Any) -> Any:
    """A text without bidirectional and invisible characters. It is escaped after this."""
    return on_one_line(shortened(value, _LONGEST)) if type(value) is str else value


def _address(key: ObjectKey, resource: str) -> str:
    return "/".join(["/objects", *(quote(each, safe="") for each in (resource, *key) if each)])


def _taking(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds else "0"
    return format_duration(round(seconds, 1 if seconds < 10 else None))  # noqa: PLR2004 - as people round


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004 - as units go
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _part_of(template: Any, part: str, shown: dict[str, Any]) -> str:
    return "".join(template.blocks[part](template.new_context(shown)))


def _event(text: str) -> bytes:
    return "".join(f"data: {line}\n" for line in _LINE_BREAK.split(text)).encode() + b"\n"
