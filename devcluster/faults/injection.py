"""A handler to which the faults that are set happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from devcluster.errors import StatusError
from devcluster.faults.control import FaultControl
from devcluster.faults.fault import Action, Fault
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, Handler

__all__ = ["with_faults"]

_REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden by an injected fault"),
    409: ("Conflict", "conflict by an injected fault"),
    410: ("Expired", "too old resource version, by an injected fault"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "Internal error occurred: an injected fault"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}


def with_faults(handler: Handler, control: FaultControl) -> Handler:
    """Return `handler` with the faults of `control` applied to its requests."""

    async def handle(request: ApiRequest) -> ApiResponse:
        fault = control.take(request)
        return await handler(request) if fault is None else await _happen(fault, request, handler)

    return handle


async def _happen(fault: Fault, request: ApiRequest, handler: Handler) -> ApiResponse:
    if fault.seconds:
        await asyncio.sleep(fault.seconds)
    match fault.do:
        case Action.FAIL:
            return ApiResponse.failure(_failure(fault))
        case Action.CUT_REQUEST:
            raise ConnectionCut
        case Action.DELAY:
            return await handler(request)
    response = await handler(request)
    if fault.do is Action.CUT_ANSWER:
        if response.stream is not None:
            await _close(response.stream)
        raise ConnectionCut
    if response.stream is not None:
        response.stream = _disturbed(response.stream, fault.lines, stall=fault.do is Action.STALL_WATCH)
    return response


def _failure(fault: Fault) -> StatusError:
    reason, message = _REASONS.get(fault.code, ("", f"an injected fault answered {fault.code}"))
    return StatusError(fault.code, reason, message, retry_after=fault.retry_after)


async def _disturbed(stream: AsyncIterator[bytes], lines: int, *, stall: bool) -> AsyncIterator[bytes]:
    """Yield `lines` lines of a stream, and then stall, or cut the connection within the next line."""
    left = lines
    try:
        if stall and left == 0:
            await asyncio.Event().wait()
        async for chunk in stream:
            whole = chunk.splitlines(keepends=True)
            if len(whole) <= left - (1 if stall else 0):
                left -= len(whole)
                yield chunk
                continue
            yield b"".join(whole[:left])
            if stall:
                await asyncio.Event().wait()
            yield whole[left][: len(whole[left]) // 2]
            raise ConnectionCut
    finally:
        await _close(stream)


async def _close(stream: AsyncIterator[bytes]) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
