"""Comparison of the queue with a slow, short and obviously correct model."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from manager.controller.queue import AGED_TURN, KeyBackoff, QueueItem, WorkQueue
from manager.controller.reconciler import Priority
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import MOST_TRIGGERS, Trigger
from manager_tools.simulation.loop import VirtualLoop
from tests.unit.controller.doubles import turns

AGEING = 3.0
METRICS = Metrics()
SLACK = 0.001
KEYS = "abc"  # so few that requests often concern the same key
ANY_KEY = st.sampled_from(KEYS)
ANY_PRIORITY = st.sampled_from(Priority)
# Multiples of 0.25 s, which floats and the microseconds of the loop represent exactly.
ANY_DELAY = st.integers(1, 40).map(lambda quarters: quarters / 4)


@dataclass
class Wish:
    """Request for work on a key."""

    priority: Priority
    due: float
    """Time from which a worker can take the key."""
    triggers: tuple[Trigger, ...] = ()
    passed_over: int = 0
    """Number of other keys that workers took while this key was aged."""
    joined: tuple[float, int] = (0.0, 0)
    """Time and sequence number that order the keys of one priority."""


@dataclass
class Model:
    """Model of the queue: each request leads to a run that begins after the request."""

    wishes: dict[str, Wish] = field(default_factory=dict)
    in_progress: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def add(self, key: str, priority: Priority, due: float, trigger: Trigger | None, *, now: float) -> None:
        known = self.wishes.get(key)
        wish = self.wishes.setdefault(key, Wish(priority, due))
        if known is None or due < wish.due:
            self.join(wish, due)
        elif priority > wish.priority and wish.due <= now:
            self.join(wish, now)
        wish.priority = max(wish.priority, priority)
        wish.due = min(wish.due, due)
        if trigger is not None:
            wish.triggers += (trigger,)

    def join(self, wish: Wish, when: float) -> None:
        wish.joined = when, next(self.numbers)

    def takeable(self, now: float) -> set[str]:
        kept = self.in_progress | self.held
        return {key for key, wish in self.wishes.items() if wish.due <= now and key not in kept}


class QueueMachine(RuleBasedStateMachine):
    """State machine of add, get, done and time steps in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.model = Model()
        self.getters: list[asyncio.Task[None]] = []
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self.queue: WorkQueue[str] = WorkQueue(
            "model", metrics=METRICS, backoff=KeyBackoff(rng=random.Random(1)), ageing=AGEING
        )

    def teardown(self) -> None:
        self.loop.run_until_complete(self._close())
        self.loop.close()

    async def _close(self) -> None:
        self.queue.shut_down()
        await asyncio.gather(*self.getters)
        assert len(asyncio.all_tasks()) == 1
        assert not self.loop.timers

    @property
    def now(self) -> float:
        return self.loop.time()

    def act(self, step: Callable[[], Any] = lambda: None) -> Any:
        """Call `step` in the event loop, wait for its effects, and return its result."""
        return self.loop.run_until_complete(self._act(step))

    async def _act(self, step: Callable[[], Any]) -> Any:
        result = step()
        await turns(5)
        for getter in [getter for getter in self.getters if getter.done()]:
            self.getters.remove(getter)
            getter.result()
        return result

    async def take(self) -> None:
        item = await self.queue.get()
        if item is not None:
            self.took(item)

    def took(self, item: QueueItem[str]) -> None:
        takeable = self.model.takeable(self.now)
        assert not self.queue.paused
        assert item.key in takeable, "taken too early, twice at once, or without a request"
        wish = self.model.wishes.pop(item.key)
        assert (item.priority, item.triggers) == (wish.priority, wish.triggers[:MOST_TRIGGERS])
        waited = self.now - wish.due
        for key in takeable - {item.key}:
            other = self.model.wishes[key]
            assert other.priority != wish.priority or other.joined > wish.joined, "wrong order"
            if other.priority > wish.priority:
                assert waited > AGEING - SLACK, "overtook a key of a higher priority before it was aged"
            if self.now - other.due > AGEING + SLACK:
                other.passed_over += 1
                assert other.passed_over <= AGED_TURN * len(KEYS), "starved"
        self.model.in_progress.add(item.key)

    @rule(key=ANY_KEY, priority=ANY_PRIORITY, event=st.booleans())
    def add(self, key: str, priority: Priority, event: bool) -> None:
        trigger = Trigger("event", self.now) if event else None
        self.model.add(key, priority, self.now, trigger, now=self.now)
        self.act(lambda: self.queue.add(key, priority=priority, trigger=trigger))

    @rule(key=ANY_KEY, priority=ANY_PRIORITY, after=ANY_DELAY)
    def add_delayed(self, key: str, priority: Priority, after: float) -> None:
        self.model.add(key, priority, self.now + after, None, now=self.now)
        self.act(lambda: self.queue.add(key, priority=priority, after=after))

    @rule(key=ANY_KEY, priority=ANY_PRIORITY)
    def add_rate_limited(self, key: str, priority: Priority) -> None:
        now = self.now
        delay = self.act(lambda: self.queue.add_rate_limited(key, priority=priority))
        self.model.add(key, priority, now + delay, Trigger("back-off", now), now=now)

    @rule(key=ANY_KEY)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        assert self.queue.retries(key) == 0

    @precondition(lambda self: len(self.getters) < 4)
    @rule()
    def get(self) -> None:
        self.act(lambda: self.getters.append(self.loop.create_task(self.take())))

    @precondition(lambda self: self.getters)
    @rule(data=st.data())
    def cancel_a_getter(self, data: st.DataObject) -> None:
        getter = self.getters.pop(data.draw(st.integers(0, len(self.getters) - 1)))
        self.act(getter.cancel)
        assert getter.cancelled()

    @precondition(lambda self: self.getters)
    @rule(key=ANY_KEY, priority=ANY_PRIORITY, data=st.data())
    def cancel_a_getter_as_a_key_comes(self, key: str, priority: Priority, data: st.DataObject) -> None:
        getter = self.getters.pop(data.draw(st.integers(0, len(self.getters) - 1)))
        self.model.add(key, priority, self.now, None, now=self.now)

        self.act(lambda: (self.queue.add(key, priority=priority), getter.cancel()))
        assert getter.cancelled()

    @precondition(lambda self: self.model.in_progress)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.in_progress)))
        self.model.in_progress.remove(key)
        if (again := self.model.wishes.get(key)) is not None and again.due <= self.now:
            self.model.join(again, self.now)
        self.act(lambda: self.queue.done(key))

    @rule(key=ANY_KEY)
    def hold(self, key: str) -> None:
        self.model.held.add(key)
        self.queue.pause(key)
        assert self.queue.is_paused(key)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.held)))
        self.model.held.remove(key)
        wish = self.model.wishes.get(key)
        if wish is not None and wish.due <= self.now and key not in self.model.in_progress:
            wish.due, wish.passed_over = self.now, 0
            self.model.join(wish, self.now)
        self.act(lambda: self.queue.resume(key))

    @rule()
    def pause_or_resume_the_queue(self) -> None:
        self.act(lambda: setattr(self.queue, "paused", not self.queue.paused))

    @rule(seconds=ANY_DELAY)
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.act()

    @invariant()
    def no_getter_waits_while_a_key_is_ready(self) -> None:
        if self.getters and not self.queue.paused:
            assert not self.model.takeable(self.now)

    @invariant()
    def queue_counts_equal_those_of_the_model(self) -> None:
        queue = self.queue
        takeable = self.model.takeable(self.now)
        wishes = self.model.wishes
        assert len(queue) == len(takeable)
        assert queue.running == len(self.model.in_progress)
        assert queue.delayed == sum(wish.due > self.now for wish in wishes.values())
        assert len(queue._items) == len(wishes)
        for priority in Priority:
            assert queue.depth(priority) == sum(wishes[key].priority == priority for key in takeable)
        assert len(queue._getters) == len(self.getters)


QueueMachine.TestCase.settings = settings(stateful_step_count=60)
TestQueue = QueueMachine.TestCase
