"""Time limits of a connection, in virtual time."""

from __future__ import annotations

import asyncio
import gc
from unittest.mock import Mock

import pytest
from aiohttp import web

from manager.server import Limits
from manager.server.connection import ClientConnection

pytestmark = pytest.mark.virtual_time

A_MOMENT = 0.1
LIMITS = Limits()


async def never_answers(_: web.BaseRequest) -> web.StreamResponse:
    return await asyncio.Event().wait() or web.Response()


def connected(*, reads: bool = True) -> tuple[ClientConnection, Mock]:
    """Return a connection and a mock of its transport, whose `ended` is true after the connection's end."""
    # Not a fixture, because a fixture would not have the virtual time of the test.
    server = web.Server(never_answers, handler_cancellation=True)
    connection, transport = ClientConnection(server, lambda: None, LIMITS), Mock(asyncio.Transport)
    transport.ended, transport.is_closing = False, lambda: transport.ended

    def abort() -> None:
        if not transport.ended:
            transport.ended = True
            asyncio.get_running_loop().call_soon(connection.connection_lost, None)

    transport.abort = abort
    if reads:
        transport.close = abort
    connection.connection_made(transport)
    return connection, transport


async def ends_after(seconds: float, transport: Mock) -> None:
    """Assert that the transport ends after this number of seconds and not earlier."""
    await asyncio.sleep(seconds - A_MOMENT)
    assert not transport.ended
    await asyncio.sleep(2 * A_MOMENT)
    assert transport.ended


@pytest.mark.parametrize(("received", "limit"), [(b"", LIMITS.head), (b"G", LIMITS.head + LIMITS.linger)])
async def test_connection_without_a_complete_request_ends_at_its_time_limit_even_if_the_client_reads_nothing(
    received: bytes, limit: float
):
    connection, transport = connected(reads=False)
    if received:
        connection.data_received(received)
    await ends_after(limit, transport)


async def test_connection_closes_when_a_request_stays_incomplete_despite_frequent_data():
    connection, transport = connected()
    for _ in range(int(LIMITS.head) * 2):
        connection.data_received(b"G")
        await asyncio.sleep(0.5 + A_MOMENT)
        if transport.ended:
            break
    assert asyncio.get_running_loop().time() == pytest.approx(LIMITS.head, abs=1)


async def test_idle_connection_closes_after_the_keep_alive_time_and_sends_nothing():
    connection, transport = connected()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.begin_answer(0)
    connection.end_answer()
    await ends_after(LIMITS.keep_alive, transport)
    transport.write.assert_not_called()


async def test_connection_closes_at_the_exchange_time_limit_when_its_response_is_unfinished():
    connection, transport = connected()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.begin_answer(0)
    connection.data_received(b"the next request, early")
    await ends_after(LIMITS.exchange, transport)


async def test_connection_closes_after_the_write_stall_limit_when_the_client_reads_no_response():
    connection, transport = connected()
    connection.begin_answer(0)
    for _ in range(3):
        connection.pause_writing()
        await asyncio.sleep(LIMITS.write_stall - A_MOMENT)
        connection.resume_writing()
    assert not transport.ended
    connection.pause_writing()
    await asyncio.sleep(LIMITS.write_stall + A_MOMENT)
    assert transport.ended


async def test_request_timeout_restarts_at_the_first_byte_of_a_request():
    connection, transport = connected()
    connection.begin_answer(0)
    connection.end_answer()
    await asyncio.sleep(LIMITS.head * 3)
    connection.data_received(b"GET")
    await ends_after(LIMITS.head, transport)


async def test_lost_connection_leaves_no_running_timer_and_logs_nothing(caplog: pytest.LogCaptureFixture):
    gc.collect()  # report the leaks of other tests now
    caplog.clear()
    connection, transport = connected()
    connection.connection_lost(None)
    transport.ended = False
    await asyncio.sleep(LIMITS.exchange * 2)
    assert not transport.ended
    assert connection.lost.is_set()
    gc.collect()  # report the leaks of this test
    assert caplog.records == []
