"""The ranges that are this replica's now: which objects it works on, and what is permitted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import _AsyncGeneratorContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from manager.api import ObjectKey
from manager.cache import Informer, Record
from manager.kube.transport import writes_need, writes_need_from_here
from manager.leader.leadership import Leadership
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.shards.cache_filter import PARTS, ByUid, ShardFilters, knows, records_in
from manager.shards.ranges import Ranges

# Seconds for which a range, which nobody else works on, waits for its objects to be known.
KNOWN_WITHIN = 30.0

_log = get_logger("leader")


@dataclass(eq=False, slots=True)
class Term:
    """The time in which a range is this replica's, and the reconciles under way in it."""

    number: int
    leadership: Leadership
    running: set[asyncio.Timeout] = field(default_factory=set)
    ending: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def enter(self) -> None:
        """Have what runs in this context do nothing but as long as the range is ours."""
        _current.set(self)
        writes_need_from_here(self.leadership.permit)


_current: ContextVar[Term | None] = ContextVar("term", default=None)


class Terms:
    """What a replica does with its ranges, of which `Sharing` tells.

    Attributes:
        leadership: the fence of the range that whoever asks works in; of the first one for what is done once
            in all replicas.
    """

    def __init__(self, count: int, *, grace: float = 30.0) -> None:
        """There are `count` ranges. Reconciles get `grace` seconds to finish when theirs is given up."""
        self.count = count
        self.shares: list[Share] = []
        self.leadership: Leadership = _OfTheCaller(self)
        self._everything = Ranges.of(count, range(count))
        self._grace = grace
        self._terms: dict[int, Term] = {}
        self._asked_for: dict[int, float] = {}
        """The ranges that are to be known, and until when others may wait for that."""
        self._changed = asyncio.Event()
        self._cache: ShardFilters | None = None
        self._begun: Callable[[Term], None] = lambda _: None
        self._ended: Callable[[Term, bool], Awaitable[None]] = _nothing_more

    def attend(
        self,
        cache: ShardFilters,
        *,
        begun: Callable[[Term], None],
        ended: Callable[[Term, bool], Awaitable[None]],
    ) -> None:
        """The manager's: what is to know the objects, what else is to be begun with a range, and to be ended
        after its reconciles, some of which may have been cancelled.
        """
        self._cache, self._begun, self._ended = cache, begun, ended
        cache.restrict(Ranges.of(self.count, ()))
        cache.when_learned(self._learned)

    async def tell(self, tell: Callable[[frozenset[int]], None]) -> None:
        """The manager's: tell of ranges that are prepared, now that all else is known; `tell` is
        `Sharing.prepared`. Until cancelled.

        A range counts as prepared after a while, known or not: some kind may not be served, and is no reason
        why nobody works on the others. Nothing is done with what is not known (see `Share`).
        """
        assert self._cache is not None
        now = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            waiting = {
                number: until
                for number, until in self._asked_for.items()
                if now() < until and not self._cache.knows(number)
            }
            tell(frozenset(self._asked_for.keys() - waiting.keys()))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(waiting.values(), default=None)):
                    await self._changed.wait()

    def _learned(self) -> None:
        self._changed.set()
        for share in self.shares:
            for number in self._terms:
                share.begin(number)

    def of(self, number: int) -> Term | None:
        """The term of a range; None when it is not ours, or nothing is to be begun in it any more."""
        term = self._terms.get(number)
        return None if term is None or term.ending else term

    def number_of(self, uid: str) -> int:
        """The range of an object."""
        return self._everything.number_of(uid)

    # `Work`, as `Sharing` wants it.

    def prepare(self, numbers: frozenset[int]) -> None:
        """Know the objects of these ranges, and of no others."""
        assert self._cache is not None
        until = asyncio.get_running_loop().time() + KNOWN_WITHIN
        self._asked_for = {number: self._asked_for.get(number, until) for number in numbers}
        self._cache.restrict(Ranges.of(self.count, numbers))
        self._changed.set()

    def begin(self, number: int, leadership: Leadership) -> None:
        """Work on the objects of a range."""
        term = self._terms[number] = Term(number, leadership)
        self._begun(term)
        for share in self.shares:
            share.begin(number)

    async def end(self, number: int) -> None:
        """Begin nothing in a range any more; return when nothing that has begun goes on."""
        term = self._terms[number]
        term.ending = True
        cut = False
        if term.running:
            try:
                async with asyncio.timeout(self._grace):
                    await term.idle.wait()
            except TimeoutError:
                cut = True
                _log.warning("reconciles cancelled", range=number, count=len(term.running), grace=self._grace)
                now = asyncio.get_running_loop().time()
                for limit in term.running:
                    limit.reschedule(now)
                await term.idle.wait()
        await self._ended(term, cut)
        del self._terms[number]
        for share in self.shares:
            share.end(number)


class Share:
    """What this replica has to do with the objects of one controller."""

    def __init__(
        self,
        terms: Terms,
        objects: Informer,
        others: Sequence[Informer] = (),
        *,
        name: str,
        metrics: Metrics,
        whole: bool,
        enqueue: Callable[[ObjectKey], None],
        counts: Callable[[Record], bool],
        handed_over: Callable[[ObjectKey], None],
    ) -> None:
        """With `whole`, all objects belong to the first range. An object that comes to this replica is
        enqueued if `counts` says so. `handed_over` is called with each object that another replica works on
        from then on. Nothing is begun in a range before `objects` and `others` have all of it, those of them
        that are restricted.
        """
        self._terms = terms
        self._objects = objects
        self._informers = (objects, *others)
        self._whole = whole
        self._enqueue = enqueue
        self._counts = counts
        self._handed_over = handed_over
        self._begun: set[int] = set()
        self._taken, self._given_back = (
            metrics.moved_keys.labels(controller=name, direction=each) for each in ("taken", "given_back")
        )
        if not whole:
            objects.add_index(PARTS, ByUid.index)
        terms.shares.append(self)

    @asynccontextmanager
    async def work_on(self, key: ObjectKey) -> AsyncIterator[bool]:
        """Within this, the object's range is ours, and else nothing is permitted; False if it is not ours."""
        term = self._term_of(key)
        if term is None:
            yield False
            return
        limit, token = asyncio.timeout(None), _current.set(term)
        try:
            async with limit:
                term.running.add(limit)
                term.idle.clear()
                with writes_need(term.leadership.permit):
                    yield True
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            _current.reset(token)
            term.running.discard(limit)
            if not term.running:
                term.idle.set()

    def covers(self, uid: str) -> bool:
        """Whether the object that was found is in the range that `work_on` was entered for."""
        term = _current.get()
        return self._whole or (term is not None and term.number == self._terms.number_of(uid))

    def begin(self, number: int) -> None:
        """The range is ours; also to be called when more has become known."""
        if number in self._begun:
            return
        if not all(knows(each, number) for each in self._informers):
            return
        self._begun.add(number)
        for record in self._in(number):
            self._taken.inc()
            if self._counts(record):
                self._enqueue(record.key)

    def end(self, number: int) -> None:
        """The range is no longer ours."""
        self._begun.discard(number)
        for record in self._in(number):
            self._handed_over(record.key)
            self._given_back.inc()

    def _in(self, number: int) -> list[Record]:
        if self._whole:
            return self._objects.list() if number == 0 else []
        return records_in(self._objects, Ranges.of(self._terms.count, {number}))

    def _term_of(self, key: ObjectKey) -> Term | None:
        if self._whole:
            return self._terms.of(0)
        record = self._objects.get(key)
        if record is None:
            # To forget what is gone is everybody's who knew it, and needs no right to anything.
            return _FORGETTING
        number = self._terms.number_of(record.uid)
        return self._terms.of(number) if number in self._begun else None


class _OfTheCaller(Leadership):
    """The fence of the range that the caller works in, and else of the first one, in its present term."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(elected=False)
        self._terms = terms

    @property
    def deadline(self) -> float:
        return self._present.deadline

    def permit(self, *, seconds: float = 0.0) -> None:
        self._present.permit(seconds=seconds)

    def held(self) -> _AsyncGeneratorContextManager[None]:
        return self._present.held()

    @property
    def _present(self) -> Leadership:
        term = _current.get() or self._terms._terms.get(0)  # noqa: SLF001 - also while it ends
        return _FORGETTING.leadership if term is None else term.leadership


async def _nothing_more(_: Term, __: bool) -> None:
    pass


_FORGETTING = Term(-1, Leadership(elected=False))
