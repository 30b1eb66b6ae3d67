"""Tells open pages of changes in the lists that they show, by the caches where possible, else by watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

import msgspec

from manager.cache import Cache, CacheEvent, Informer
from manager.explain.looking import Found, Listed, Node
from manager.kube.decoding import Decoder, decode_event, lines
from manager.kube.errors import Forbidden, KubeError, status_error
from manager.kube.transport import Transport
from manager.loop import own_turn
from manager.nesting import is_too_deep

MOST = 64
"""The most watches at once, for all pages. Lists without one are read again periodically."""

_SECONDS, _SILENCE = 120, 150.0
"""Time limit of a watch, and the idle time after which it is given up; in seconds."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _Owner(msgspec.Struct):
    uid: str = ""


class _Meta(msgspec.Struct):
    uid: str = ""
    owners: list[_Owner] | None = msgspec.field(default=None, name="ownerReferences")


class _Changed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decode = Decoder(_Changed, "an object")


class Following:
    """The subscriptions of one page."""

    def __init__(self, watches: Watches, sharer: str = "") -> None:
        """`watches` are those of all pages; `sharer` is the page's user."""
        self._watches = watches
        self.sharer = sharer
        self.uids: frozenset[str] = frozenset()
        """The UIDs of all objects on the page."""

        self.refused: set[Listed] = set()
        """Lists that may not be watched."""

        self.heard = 0
        """Counts the changes that concern the page."""

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Stay subscribed to what `follow` names while the context lasts."""
        try:
            yield
        finally:
            self._watches.join(self, {}, 0.0)
            await self._watches.ended()

    def follow(self, found: Found, since: float) -> None:
        """Subscribe to the lists that this was found in, instead of earlier ones.

        `since` is when they were read, on the loop's clock.
        """
        self.uids = frozenset(_uids(found.root))
        self._watches.join(self, found.listed, since)


class Watches:
    """The watches of all pages: one for each list, and none for what a cache has."""

    def __init__(self, transport: Transport, cache: Cache) -> None:
        self._transport = transport
        self._cache = cache
        self._heard: dict[Listed, _Heard] = {}
        self._tasks: dict[Listed, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def join(self, page: Following, listed: Mapping[Listed, str], since: float) -> None:
        """Subscribe a page to these lists, from the versions that it has, and to nothing else."""
        for each, heard in list(self._heard.items()):
            if each not in listed and page in heard.pages:
                del heard.pages[page]
                if not heard.pages:
                    self._end(each)
        for each, version in listed.items():
            if each in page.refused or not self._begin(each, version, page.sharer):
                continue
            heard = self._heard[each]
            if page not in heard.pages:
                heard.pages[page] = None
                page.heard += heard.last >= since  # it was not told of what came during its look

    async def ended(self) -> None:
        """Wait until unneeded watches have ended."""
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    def _begin(self, listed: Listed, version: str, sharer: str) -> bool:
        if listed in self._heard:
            return True
        if (informer := _that_has(self._cache.informers, listed)) is not None:
            heard = self._heard[listed] = _Heard(listed)
            heard.last = -1.0 if informer.changed_at is None else informer.changed_at
            heard.leave = informer.subscribe(heard.tell_of, replay=False)
            return True
        if len(self._tasks) >= MOST and not self._made_room(sharer):
            return False
        heard = self._heard[listed] = _Heard(listed)
        task = asyncio.create_task(self._watch(heard, version), name=f"console-watch {listed.path}")
        self._tasks[listed] = task
        heard.leave = task.cancel
        task.add_done_callback(self._ending.discard)
        return True

    def _made_room(self, sharer: str) -> bool:
        """End a watch of the user who has most, unless `sharer` would then have more."""
        held = Counter(self._heard[each].sharer for each in self._tasks)
        for most, count in held.most_common(1):
            if count > held[sharer] + 1:
                self._end(next(each for each in reversed(self._tasks) if self._heard[each].sharer == most))
                return True
        return False

    def _end(self, listed: Listed) -> None:
        self._heard.pop(listed).leave()
        if (task := self._tasks.pop(listed, None)) is not None and not task.done():
            self._ending.add(task)

    async def _watch(self, heard: _Heard, version: str) -> None:
        listed = heard.listed
        query = {
            **dict(listed.query),
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": f"{_SECONDS}",
        }
        try:
            async with (
                self._transport.stream(
                    listed.path, query=query, accept=_METADATA, idle_timeout=_SILENCE
                ) as chunks,
                aclosing(lines(chunks)) as events,
            ):
                async for line in events:
                    await own_turn(len(line))
                    heard.tell(line)
            heard.tell_all()  # its time is over: the next look opens another one
        except Forbidden:
            for page in heard.pages:
                page.refused.add(listed)
        except KubeError:
            pass  # the next look, by the tick, opens another one
        finally:
            if self._heard.get(listed) is heard:
                del self._heard[listed], self._tasks[listed]


class _Heard:
    """A list that pages are subscribed to."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        self.pages: dict[Following, None] = {}
        """The pages, in the order of their subscription."""

        self.leave: Callable[[], object]
        self.last = -1.0
        """When it last changed, on the loop's clock."""

    @property
    def sharer(self) -> str:
        """The user that it counts for: that of the first page."""
        return next(iter(self.pages)).sharer

    def tell(self, line: bytes) -> None:
        """Take an event of a watch; raises what an ERROR event says."""
        if is_too_deep(line):  # to make it shallow would be more work than a look
            self.tell_all()
            return
        event = decode_event(line)
        if event.type == "ERROR":
            raise status_error(event.object)
        meta = _decode(event.object).metadata
        self._tell(meta.uid, [owner.uid for owner in meta.owners or ()])

    def tell_of(self, event: CacheEvent) -> None:
        """Take an event of a cache."""
        self._tell(event.record.uid, [owner.uid for owner in event.meta.owner_references])

    def _tell(self, uid: str, owners: Sequence[str]) -> None:
        self.last = asyncio.get_running_loop().time()
        uids = {uid, *owners}
        for page in self.pages:
            page.heard += self.listed.all_concern or not page.uids.isdisjoint(uids)

    def tell_all(self) -> None:
        """Tell all pages to read again."""
        self.last = asyncio.get_running_loop().time()
        for page in self.pages:
            page.heard += 1


def _that_has(informers: Iterable[Informer], listed: Listed) -> Informer | None:
    """A cache that has the whole list."""
    for informer in informers:
        same = informer.spec.gvk == listed.gvk and not listed.all_concern
        if same and informer.has_all_of(listed.namespace):
            return informer
    return None


def _uids(node: Node) -> list[str]:
    return [node.uid, *(uid for child in node.children for uid in _uids(child))]
