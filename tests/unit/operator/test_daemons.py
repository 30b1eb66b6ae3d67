"""Daemons: methods that run as long as their object exists."""

from __future__ import annotations

import asyncio
import contextvars
from typing import ClassVar

import pytest

from manager import Context, Operator, TerminalError, daemon
from manager_tools.testing import operated
from tests.unit.conftest import LogLines
from tests.unit.operator.greetings import Greeting, greeting

pytestmark = pytest.mark.virtual_time
inherited = contextvars.ContextVar("inherited", default="nothing")


class Noting(Operator[Greeting]):
    """Operator that records the start and end of each greeting's daemons."""

    name = "noting"
    log: ClassVar[list[str]]
    failures: ClassVar[list[BaseException]]

    def setup(self) -> None:
        type(self).log, type(self).failures = [], []

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        inherited.set("a reconcile")
        greeting.status.text = greeting.spec.name

    @daemon
    async def follow(self, greeting: Greeting) -> None:
        await self.note(greeting, "follow")

    @daemon(restarts=False)
    async def stay(self, greeting: Greeting) -> None:
        await self.note(greeting, "stay")

    async def note(self, greeting: Greeting, what: str) -> None:
        assert inherited.get() == "nothing"
        said = f"{what} {greeting.metadata.name} {greeting.spec.name}"
        self.log.append(f"begin {said}")
        if what == "follow" and self.failures:
            raise self.failures.pop(0)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            self.log.append(f"end {said}")

    @classmethod
    def take(cls) -> list[str]:
        new, cls.log[:] = list(cls.log), []
        return new


class Following(Noting):
    name = "following"

    async def cleanup(self, greeting: Greeting, ctx: Context) -> None:
        self.log.append(f"cleanup {greeting.metadata.name}")


def daemons() -> list[str]:
    """Return the names of the running tasks of the daemon `follow`."""
    return sorted(
        task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("following-f")
    )


async def test_daemon_runs_until_its_object_is_deleted_and_restarts_when_the_spec_changes():
    async with operated(Following) as world:
        obj = await world.create(greeting("a"))
        await asyncio.sleep(5)
        assert Following.take() == ["begin follow a you", "begin stay a you"]
        assert daemons() == ["following-follow default/a"]
        await world.update(obj, lambda it: setattr(it.spec, "name", "all"))
        await world.until(obj, lambda it: it.status.text == "all")
        assert Following.take() == ["end follow a you", "begin follow a all"]
        await world.update(obj, lambda it: it.metadata.labels.update(a="b"))
        await asyncio.sleep(5)
        assert Following.take() == []
        await world.delete(obj)
        await world.until_gone(obj)
        assert Following.take() == ["end stay a you", "end follow a all", "cleanup a"]
        assert daemons() == []


async def test_daemon_ends_at_deletion_even_if_the_predicate_rejects_deletions_or_a_finalizer_remains():
    class Once(Noting):
        name = "once"
        on = staticmethod(lambda event: event.old is None)

    async with operated(Once) as world:
        for finalizers in ([], ["example.com/hold"]):
            obj = await world.create(greeting("a", finalizers=finalizers))
            await asyncio.sleep(5)
            await world.delete(obj)
            await asyncio.sleep(5)
            names = ("follow a you", "stay a you")
            assert Once.take() == [f"{what} {name}" for what in ("begin", "end") for name in names]
        await world.update(obj, lambda it: it.metadata.finalizers.clear())


async def test_daemon_ends_when_the_manager_stops():
    async with operated(Following, objects=[greeting("a"), greeting("b")]):
        await asyncio.sleep(5)
        assert len(daemons()) == 2
    assert daemons() == []
    assert sorted(each for each in Following.take() if each.startswith("end follow")) == [
        "end follow a you",
        "end follow b you",
    ]


async def test_failed_daemon_is_logged_and_restarted_with_backoff(log_lines: LogLines):
    async with operated(Following) as world:
        Following.failures[:] = [LookupError("not yet"), asyncio.CancelledError(), SystemExit("still not")]
        await world.create(greeting("a"))
        await asyncio.sleep(0.5)
        assert Following.take().count("begin follow a you") == 1
        await asyncio.sleep(10)
        assert Following.take() == ["begin follow a you"] * 3
    [line] = [line for line in log_lines if line["event"] == "a daemon failed"]
    assert (line["daemon"], line["error"], line["times"]) == ("follow", "not yet", 1)
    assert (line["namespace"], line["name"]) == ("default", "a")


async def test_daemon_is_not_restarted_after_a_terminal_error_until_the_spec_changes():
    async with operated(Following) as world:
        Following.failures[:] = [TerminalError("no such place")]
        obj = await world.create(greeting("a"))
        await asyncio.sleep(500)
        assert Following.take() == ["begin follow a you", "begin stay a you"]
        obj = await world.update(obj, lambda it: it.metadata.labels.update(a="b"))
        await asyncio.sleep(5)
        assert Following.take() == []
        await world.update(obj, lambda it: setattr(it.spec, "name", "all"))
        await asyncio.sleep(5)
        assert Following.take() == ["begin follow a all"]


async def test_daemon_that_ignores_its_cancellation_is_reported_and_delays_the_cleanup(log_lines: LogLines):
    class Stubborn(Following):
        name = "stubborn"

        @daemon
        async def follow(self, greeting: Greeting) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(30)

    async with operated(Stubborn) as world:
        obj = await world.create(greeting("a"))
        await asyncio.sleep(5)
        await world.delete(obj)
        await asyncio.sleep(20)
        assert "cleanup a" not in Stubborn.take()
        await world.until_gone(obj, timeout=30)
        assert "cleanup a" in Stubborn.take()
    [line] = [line for line in log_lines if line["event"] == "waiting for cancelled daemons"]
    assert line["names"] == ["stubborn-follow default/a"]
