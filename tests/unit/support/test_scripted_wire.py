"""A scripted exchange ends when its line breaks, whatever the task that waits for it has gone through."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NoReturn

import pytest

from manager.kube.errors import ConnectionLost, Unreachable
from manager.kube.wire import WireRequest
from tests.support.effort import turns_of_others
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Step, Stream, Unreached

pytestmark = pytest.mark.virtual_time
REQUEST = WireRequest("GET", "/", {})


@pytest.mark.parametrize("pieces", [0, 1])
async def test_stream_of_a_scripted_wire_is_lost_after_an_abort(pieces: int):
    wire, stream = ScriptedWire(), Stream()
    wire.on("GET", "/", stream)
    async with wire.exchange(REQUEST) as answer:
        chunks = answer.chunks()
        for _ in range(pieces):
            stream.feed(b"piece")
            assert await anext(chunks) == b"piece"
        wire.abort()
        with pytest.raises(ConnectionLost):
            await anext(chunks)


async def test_an_abort_is_told_from_a_cancellation_also_while_a_cancelled_task_cleans_up():
    wire = ScriptedWire()
    wire.on("GET", "/", Stream())
    told: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            with pytest.raises(ConnectionLost):
                async with wire.exchange(REQUEST) as answer:
                    await anext(answer.chunks())
            told.append("lost")

    task = asyncio.create_task(works())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    wire.abort()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["lost"]


async def test_abort_leaves_no_cancellation_in_a_task_whose_step_raises_an_error():
    wire = ScriptedWire()

    async def swallows(_sent: Sent) -> NoReturn:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise Unreachable("made of it") from None
        raise AssertionError

    wire.on("GET", "/", swallows)

    async def asks() -> int:
        with pytest.raises(Unreachable):
            async with wire.exchange(REQUEST):
                pass
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(1)
    wire.abort()
    assert await asking == 0


@pytest.mark.parametrize("step", [Reply(), Unreached()])
async def test_scripted_wire_yields_to_other_tasks_when_asked_without_a_pause(step: Step):
    wire = ScriptedWire()
    wire.on("GET", "/", step)

    async def asks() -> None:
        for _ in range(50):
            with suppress(Unreachable):
                async with wire.exchange(REQUEST):
                    pass

    assert await turns_of_others(asks()) >= 50
