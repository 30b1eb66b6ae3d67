"""A reflector of one kind into a store: it lists, watches, and continues after every failure."""

from __future__ import annotations

import asyncio
import enum
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from manager.api import ObjectKey
from manager.cache.sink import Sink
from manager.cache.spec import WatchSpec
from manager.kube.decoding import Decoder, Listing, Page, WatchEvent, not_a, watch_events
from manager.kube.errors import (
    ApiError,
    BadRequest,
    ConnectionLost,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NoMatch,
    NotFound,
    ProtocolError,
    ServerError,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Unreachable,
)
from manager.kube.rest_mapping import RestMapper, RestMapping
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.util.backoff import Backoff
from manager.util.loop import Portions
from manager.util.rate_limit import Repeats

# Objects per page: large enough for few requests, and small enough for a body of a few megabytes.
PAGE = 500
LIST_DEADLINE = 120.0
# If listing newly selected objects takes longer, the reflector lists all objects instead, with retries.
LIST_MORE_WITHIN = 30.0

# The server sends a bookmark every minute, so a connection is dead if it is silent for longer.
IDLE_TIMEOUT = 90.0

# Each watch requests a random end from this range, so that watches do not end at the same time.
WATCH_SECONDS = (300, 600)

# A reflector starts at most one watch in so many seconds. A watch that lasted as long, or sent events, causes
# no back-off.
SPACING = 1.0
BACKOFF_BASE = 0.8
BACKOFF_CAP = 30.0
# A longer pause is reported as a problem at its first failure.
UNNOTICED = 5.0
# A caller may wait for a kind whose CRD was just installed, and a retry costs the server little.
NOT_SERVED_CAP = 10.0

# Several servers may share an address, and an outdated one would bring back deleted objects. The reflector
# accepts a list that is older than its cache (a restored backup) only if all answers for so many seconds were
# that old.
RESTORED_AFTER = 30.0

# The number of the newest objects that are compared after a watch was lost.
PROOFS = 10

# The number of deleted objects, still sent by the server, that are read at each bookmark.
ASKED_AT_ONCE = 50

_HINT = "; is its definition installed? The command crds prints those of this program"

JSON = "application/json"
PARTIAL = "application/json;as=PartialObjectMetadata{form};g=meta.k8s.io;v=v1"

# Marks the bookmark at the end of a streaming list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class State(enum.Enum):
    """The state of a reflector."""

    RESOLVE = "resolve"
    """Find the path of the kind by discovery."""
    STREAM = "stream"
    """Get the current content as a stream that turns into a watch; LIST follows if it is not supported."""
    LIST = "list"
    """Get the current content in pages."""
    WATCH = "watch"
    """Watch the changes."""
    CHECK = "check"
    """Check whether the server still has the watched history. After a restore of its storage from a backup, a
    watch sends nothing until versions are as high as before, and never sends the earlier changes."""


class Pause(enum.Enum):
    """The rule that says whether the reflector pauses before its next step."""

    NO = "no"
    IF_FRUITLESS = "if-fruitless"
    """Pause only after a short watch without events: otherwise a server that closes every watch at once would
    get endless requests."""
    YES = "yes"


class WatchClosed(KubeError):
    """The server has closed a watch normally, but before the requested time."""


class WatchTimedOut(WatchClosed):
    """The server has closed a watch after the requested time."""


class NotStreaming(KubeError):
    """A bookmark in a streaming list does not mark the list's end: the server has no streaming lists."""


class HistoryRestored(KubeError):
    """The server's version is lower than before: its storage was restored, or it is another server."""


class HistoryDoubted(KubeError):
    """The server's objects differ from those that the watch has reported; the reason may be harmless."""


class OlderList(KubeError):
    """A list has a lower version than the server has sent before."""


EXPIRED = "expired"
NO_STREAMING = "no-streaming"


class Rule(NamedTuple):
    """A rule: after `failures` in `states` (None: any state), continue in `next` (None: the same state).

    `reason` is the failure's name in metrics and logs.
    """

    failures: tuple[type[KubeError], ...]
    states: tuple[State, ...] | None
    next: State | None
    reason: str
    pause: Pause


# The first matching rule applies; a regular end of a watch counts as the mildest failure. A watch continues
# at its last version, if that makes sense; after invalid data the same data would be sent again. A watch that
# ended early is checked first, because the server may have restarted with older storage. A failed check leads
# to a list. The last rules mean that after an unknown failure, a stream is replaced by pages, and pages by a
# stream, so that a server (or a proxy) that supports only one of them works, too.
RULES = (
    Rule((NoMatch, NotFound), None, State.RESOLVE, "not-served", Pause.YES),
    Rule((Unauthorized, Forbidden), None, None, "forbidden", Pause.YES),
    Rule((TooManyRequests, ServiceUnavailable), (State.WATCH,), State.CHECK, "throttled", Pause.YES),
    Rule((TooManyRequests, ServiceUnavailable), None, None, "throttled", Pause.YES),
    Rule((Unreachable, ConnectionLost), (State.WATCH,), State.CHECK, "lost", Pause.YES),
    Rule((Unreachable, ConnectionLost), None, None, "lost", Pause.YES),
    Rule((BadRequest, Invalid, NotStreaming), (State.STREAM,), State.LIST, NO_STREAMING, Pause.NO),
    Rule((Gone,), None, State.STREAM, EXPIRED, Pause.IF_FRUITLESS),
    Rule((HistoryRestored,), None, State.STREAM, "restored", Pause.YES),
    Rule((HistoryDoubted,), None, State.STREAM, "doubted", Pause.YES),
    Rule((OlderList,), None, State.STREAM, "stale", Pause.YES),
    Rule((WatchClosed,), (State.STREAM,), State.LIST, "closed", Pause.IF_FRUITLESS),
    Rule((WatchTimedOut,), None, State.WATCH, "closed", Pause.IF_FRUITLESS),
    Rule((WatchClosed,), None, State.CHECK, "closed", Pause.IF_FRUITLESS),
    Rule((DeadlineExceeded,), (State.WATCH,), State.CHECK, "silent", Pause.IF_FRUITLESS),
    Rule((ProtocolError,), (State.RESOLVE,), None, "garbage", Pause.YES),
    Rule((ProtocolError,), (State.LIST, State.WATCH), State.STREAM, "garbage", Pause.YES),
    Rule((ServerError,), (State.WATCH,), State.CHECK, "server-error", Pause.YES),
    Rule((KubeError,), (State.RESOLVE,), State.RESOLVE, "other", Pause.YES),
    Rule((KubeError,), (State.STREAM,), State.LIST, "other", Pause.YES),
    Rule((KubeError,), None, State.STREAM, "other", Pause.YES),
)


def rule_for(state: State, failure: KubeError) -> Rule:
    """Return the first matching rule; the last rule matches every failure."""
    return next(
        rule
        for rule in RULES
        if isinstance(failure, rule.failures) and (rule.states is None or state in rule.states)
    )


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _Metadata


_decode_bookmark = Decoder(_Bookmark, "a bookmark")


def decode_bookmark(raw: msgspec.Raw) -> tuple[int, bool]:
    """Return the version of a BOOKMARK event, and whether it ends the initial list of a stream.

    Raises ProtocolError.
    """
    metadata = _decode_bookmark(raw).metadata
    ends_list = metadata.annotations.get(INITIAL_EVENTS_END) == "true"
    return version_of(metadata.resource_version, "a bookmark"), ends_list


def _now() -> float:
    return asyncio.get_running_loop().time()


def version_of(text: str, what: str) -> int:
    """Parse a resourceVersion as a number; raises ProtocolError with `what` in the message."""
    try:
        return int(text)
    except ValueError as error:
        raise not_a(what, error) from None


class Upstream(NamedTuple):
    """The client objects through which reflectors reach the API server."""

    transport: Transport
    mapper: RestMapper
    metrics: Metrics
    rng: random.Random


class Reflector:
    """A task that lists and watches one kind, in one namespace or in all, into a sink, forever.

    A state machine: `step` does the work of the current state and changes to the next one. The table `RULES`
    covers every failure of the communication with the server; none ends the reflector.

    Attributes:
        state: the current state.
        problem: the reason why it cannot watch the server, for people; None while it can, and usually after a
            single failure.
    """

    def __init__(self, spec: WatchSpec, sink: Sink, upstream: Upstream) -> None:
        self._spec = spec
        self._sink = sink
        self._transport, self._mapper, metrics, self._rng = upstream
        self._restarts = metrics.watch_restarts
        # A jitter of 100 %, because all watches of all clients fail together.
        self._backoff = Backoff(base=BACKOFF_BASE, cap=BACKOFF_CAP, jitter=1.0, rng=self._rng)
        # Separate, because a refusal is an answer: the length of an outage is no reason to wait longer.
        self._outage = Backoff(base=BACKOFF_BASE, cap=BACKOFF_CAP, jitter=1.0, rng=self._rng)
        self._failures = 0  # consecutive pauses
        self._path = ""
        self._mapping: RestMapping
        # Deleted objects that the server has still sent before the last bookmark.
        self._doubted: set[tuple[ObjectKey, str]] = set()
        self._streaming = True
        self._attempt = _Attempt(0.0)
        self._delay = 0.0
        self._doubts_since: float | None = None
        self._told: defaultdict[str, Repeats] = defaultdict(Repeats)  # by the reason for not watching
        self._log = get_logger("cache.reflector", resource=spec.resource, namespace=sink.namespace or None)
        self._steps: dict[State, Callable[[], Awaitable[State]]] = {
            State.RESOLVE: self._resolve,
            State.STREAM: self._stream,
            State.LIST: self._list,
            State.WATCH: self._watch,
            State.CHECK: self._check,
        }
        self.state = State.RESOLVE
        self.problem: str | None = None

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            await self.step()

    @property
    def follows(self) -> bool:
        """Return whether the latest list is complete, so that the next step checks or watches."""
        return self.state in {State.WATCH, State.CHECK}

    def start_over(self) -> None:
        """List again from the start; allowed only while the reflector does not run."""
        self.state, self._delay = State.STREAM if self._path else State.RESOLVE, 0.0

    async def list_beside(self, query: Mapping[str, str], take: Callable[[msgspec.Raw], None]) -> int | None:
        """List the objects that `query` selects, independently of `run`; call `take` for each.

        Returns the version of the list; None if the list fails, takes too long, or is older than the cache.
        """
        seen = self._sink.seen
        selection = {**self._selection(query), "limit": str(PAGE)}
        try:
            async with asyncio.timeout(LIST_MORE_WITHIN):
                version = await self._pages(selection, take)
        except (KubeError, TimeoutError) as failure:
            self._log.debug("cannot list the objects of the added shards", error=str(failure))
            return None
        # An outdated server may show objects that another client has changed or deleted since.
        return None if version < seen else version

    async def step(self) -> None:
        """Pause if a failure requires it, do the work of the current state, and change to the next one."""
        try:
            await self._pause()
            self._attempt = _Attempt(_now())
            self.state = await self._steps[self.state]()
        except KubeError as failure:
            self.state = self._fail(failure)

    async def _resolve(self) -> State:
        mapping = await self._mapper.resolve(self._spec.gvk)
        self._mapping, self._path = mapping, mapping.path(self._sink.namespace)
        # The server may have been replaced or upgraded.
        self._streaming = True
        return State.STREAM

    async def _stream(self) -> State:
        if not self._streaming:
            return State.LIST
        self._sink.begin_list()
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", **self._not_older()}
        async with self._events(query) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    version, ends_list = decode_bookmark(event.object)
                    if not ends_list:
                        raise NotStreaming("the server did not mark the end of the initial events")
                    self._finish_list(version)
                    self.state = State.WATCH
                    await self._follow(events)
                else:
                    self._sink.list_event(event.type, event.object)
        raise self._closed()

    async def _list(self) -> State:
        selection, first = self._selection(), self._not_older()
        self._sink.begin_list()
        try:
            version = await self._pages({**selection, "limit": str(PAGE)}, self._sink.list_item, **first)
        except Gone:  # the server did not keep the list for long enough
            self._sink.begin_list()
            version = await self._pages(selection, self._sink.list_item, **first)
        self._finish_list(version)
        return State.WATCH

    async def _pages(
        self, selection: dict[str, str], take: Callable[[msgspec.Raw], None], **first: str
    ) -> int:
        """List the selected objects in pages, call `take` for each, and return the version of the list."""
        listing = Listing(
            self._transport.request, self._path, accept=self._accept("List"), deadline=LIST_DEADLINE
        )
        page, portions = await listing.page({**selection, **first}), Portions()
        while True:
            version = version_of(page.version, "a list")
            for item in page.items:
                await portions.begin(len(memoryview(item)))
                take(item)
            if not page.resume:
                return version
            page = await listing.page(selection, page.resume)

    async def _watch(self) -> State:
        async with self._events({"resourceVersion": str(self._sink.version)}) as events:
            self.problem = None
            # A watch without events is normal; one that ends at once does not end the failure.
            lasts = asyncio.get_running_loop().call_later(SPACING, self._follows_again)
            try:
                await self._follow(events)
            finally:
                lasts.cancel()
        raise self._closed()

    def _closed(self) -> WatchClosed:
        if self._attempt.lasted(self._attempt.seconds - SPACING):
            return WatchTimedOut("the server closed the watch after the requested time")
        return WatchClosed("the server closed the watch")

    async def _check(self) -> State:
        """Compare the server's version, its number of objects and its newest objects with the store.

        An equal version proves nothing: other clients may have written since a backup was restored. If the
        server has the newest object in the stored version, the store is right. If that object has changed
        since, the watch reports the change, and the check tries the next newest object.
        """
        reached = self._sink.version
        newest = self._sink.store.newest(self._sink.namespace, PROOFS)
        page = await self._peek(self._path)
        version = version_of(page.version, "a list")
        if version < reached:
            raise HistoryRestored(f"the server's version went back from {reached} to {version}")
        count = None if page.resume and page.remaining is None else len(page.items) + (page.remaining or 0)
        if count is not None and self._sink.count not in {None, count}:
            raise HistoryDoubted(f"the server has {count} objects, and the watch reported {self._sink.count}")
        for key, held in newest:
            page = await self._peek(self._mapping.path(key.namespace), f"metadata.name={key.name}")
            if not page.items:
                raise HistoryDoubted(f"the server has no {key}, but the watch reported it")
            version = self._sink.decoder.look(page.items[0]).version
            if version == held:
                return State.WATCH
            if version <= reached:
                raise HistoryRestored(f"{key} has version {version}, the watch reported version {held}")
        if newest:
            raise HistoryDoubted(f"the server has newer states of the {len(newest)} newest objects")
        return State.WATCH

    async def _pause(self) -> None:
        if self._outage.failures and self._delay:
            if await self._transport.is_back(within=self._delay):
                # Another request has succeeded. Avoid that all reflectors continue at once.
                await asyncio.sleep(self._rng.uniform(0, SPACING))
        elif self._delay:
            await asyncio.sleep(self._delay)
        self._delay = 0.0

    async def _peek(self, path: str, field: str = "") -> Page:
        """Request a list of at most one object from the server's storage, not from the server's cache."""
        selection = self._selection()
        if field:
            selection["fieldSelector"] = ",".join(filter(None, (selection.get("fieldSelector"), field)))
        listing = Listing(self._transport.request, path, accept=self._accept("List"))
        return await listing.page({**selection, "limit": "1"})

    async def _follow(self, events: AsyncIterator[WatchEvent]) -> None:
        async for event in events:
            if event.type == "BOOKMARK":
                version, _ = decode_bookmark(event.object)
                if not self._sink.bookmark(version):
                    raise HistoryRestored(
                        f"the server's version went back from {self._sink.version} to {version}"
                    )
                await self._ask_for_deleted()
            else:
                self._sink.event(event.type, event.object)
            self._attempt.fruitful = True
            if self._told:
                self._follows_again()

    async def _ask_for_deleted(self) -> None:
        """Read each object that this process has deleted, if the server still sends it after two bookmarks.

        A watch that is merely late soon reports the deletion. After the restore of a backup, no watch does.
        """
        before, self._doubted = self._doubted, self._sink.store.doubted(self._sink.namespace)
        for key, _ in sorted(before & self._doubted)[:ASKED_AT_ONCE]:
            path = self._mapping.path(key.namespace, key.name)
            try:
                raw = await self._transport.request("GET", path, accept=self._accept(""))
            except NotFound:
                self._sink.settle(key, None)
            except KubeError as failure:
                problem = "cannot read an object that a list contained after its deletion"
                self._log.debug(problem, namespace=key.namespace, name=key.name, error=str(failure))
                return
            else:
                self._sink.settle(key, raw)

    def _follows_again(self) -> None:
        if self._told:
            self._told.clear()
            self._log.info("the watch works again")

    @asynccontextmanager
    async def _events(self, query: dict[str, str]) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Open a watch; raises the error of an ERROR event."""
        seconds = self._rng.randint(*WATCH_SECONDS)
        query |= self._selection()
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        async with (
            self._transport.stream(
                self._path, query=query, accept=self._accept(""), idle_timeout=IDLE_TIMEOUT
            ) as chunks,
            aclosing(watch_events(chunks)) as events,
        ):
            self._attempt.connected_at = _now()
            self._attempt.seconds = seconds
            yield events

    def _selection(self, further: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the selectors of the watch, combined with `further` (None: the selectors of the filter)."""
        selection = {"labelSelector": self._spec.label_selector, "fieldSelector": self._spec.field_selector}
        if further is None and self._sink.filter is not None:
            further = self._sink.filter.query()
        for name, value in (further or {}).items():
            selection[name] = ",".join(filter(None, (selection.get(name), value)))
        return {name: value for name, value in selection.items() if value}

    def _accept(self, form: str) -> str:
        # If a server cannot send metadata alone, it sends whole objects, which are reduced on arrival.
        return f"{PARTIAL.format(form=form)},{JSON}" if self._spec.metadata_only else JSON

    def _not_older(self) -> dict[str, str]:
        """Return the query for a list as new as the cache; empty without doubts, or to accept any list."""
        if self._doubts_since is None or self._believes():
            return {}
        return {"resourceVersion": str(self._sink.seen), "resourceVersionMatch": "NotOlderThan"}

    def _believes(self) -> bool:
        """Return whether to accept older lists: they have come for at least `RESTORED_AFTER` seconds."""
        return self._doubts_since is not None and _now() - self._doubts_since >= RESTORED_AFTER

    def _finish_list(self, version: int) -> None:
        if version < self._sink.seen and not self._believes():
            if self._doubts_since is None:
                self._doubts_since = _now()
            raise OlderList(f"the server lists version {version}, after {self._sink.seen}")
        self._doubts_since = None
        first = not self._sink.synced.is_set()
        self._sink.finish_list(version)
        self.problem = None
        self._attempt.fruitful = True
        self._told.clear()
        self._log.info("the cache is synced" if first else "listed all objects again", version=version)

    def _fail(self, failure: KubeError) -> State:
        rule = rule_for(self.state, failure)
        following = rule.next or self.state
        self._restarts.labels(self._spec.resource, rule.reason).inc()
        if following is State.RESOLVE:
            self._mapper.forget(self._spec.gvk)
        if isinstance(failure, HistoryRestored):
            self._sink.restored = True
        if rule.reason == NO_STREAMING:
            self._streaming = False
        if isinstance(failure, TransportError):
            self._doubts_since = None  # the duration of this outage is unknown
        self._delay = self._seconds_until_next(rule, failure)
        # If a watch has expired (after a restart of the server, all have), the next list shows whether that
        # matters.
        harmless = rule.reason == EXPIRED and self.state is State.WATCH
        times = self._told[rule.reason].count() if self.problem and not harmless else None
        log = self._log.debug if times is None else self._log.warning
        log(
            "cannot watch" if self.problem else "watch ended",
            state=self.state.value,
            reason=rule.reason,
            error=f"{failure}{_HINT}" if isinstance(failure, NoMatch) else str(failure),
            next=following.value,
            delay=round(self._delay, 3),
            **({} if times is None else {"times": times}),
        )
        return following

    def _seconds_until_next(self, rule: Rule, failure: KubeError) -> float:
        """Return the seconds to wait after a failure; set `problem` if the failure has to be reported."""
        if rule.pause is Pause.NO:
            return 0.0
        # A server that sends invalid data after each list must not get list requests without a pause.
        fruitful = self._attempt.fruitful or self._attempt.lasted(SPACING)
        if good := fruitful and not isinstance(failure, ProtocolError):
            self._backoff.reset()
            self._outage.reset()
            self._failures = 0
        delay = max(0.0, self._attempt.started_at + SPACING - _now())
        if rule.pause is Pause.IF_FRUITLESS and good:
            return delay
        if isinstance(failure, TransportError):
            delay = max(delay, self._outage.next())
        else:
            self._outage.reset()
            asked = failure.retry_after if isinstance(failure, ApiError) else None
            delay = max(delay, min(asked, BACKOFF_CAP) if asked else self._backoff.next())
        if isinstance(failure, NoMatch | NotFound):
            delay = min(delay, NOT_SERVED_CAP)
        if rule.reason != EXPIRED:  # the next list shows whether there is a problem
            self._failures += 1
        # A single broken watch that reopens soon needs no log line.
        if self._failures > 1 or not self._sink.synced.is_set() or delay > UNNOTICED:
            self.problem = f"{self._spec.resource}: {_explain(failure)}"
        return delay


@dataclass(slots=True)
class _Attempt:
    """The progress of one step; `seconds` is the requested duration of its watch."""

    started_at: float
    connected_at: float | None = None
    seconds: int = 0
    fruitful: bool = False

    def lasted(self, seconds: float) -> bool:
        return self.connected_at is not None and _now() - self.connected_at >= seconds


def _explain(failure: KubeError) -> str:
    match failure:
        case NoMatch() | NotFound():
            return "not served (is the CRD installed?)"
        case Forbidden() | Unauthorized():
            return f"{type(failure).__name__.lower()}: {failure}"
        case _:
            return str(failure)
