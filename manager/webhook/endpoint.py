"""A served path, and the call of an operator's function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

import orjson

from manager.util.nesting import TOO_DEEP, is_too_deep
from manager.webhook.errors import FunctionFailed, FunctionTooSlow, NotConverted, Unanswered
from manager.webhook.refused import Refused

T = TypeVar("T")

LINES = 60
"""How many refusals and failures of one webhook are logged in a minute. Everybody who reaches the port can
cause more; the metrics count all.
"""


class Endpoint(Protocol):
    """Endpoint that answers reviews as bytes, independent of HTTP."""

    @property
    def path(self) -> str:
        """Return the URL path of the endpoint."""

    @property
    def max_body(self) -> int:
        """Return the maximum bytes of a review."""

    @property
    def identified(self) -> bool:
        """Return whether an API server can be told to show a certificate there."""

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """Answer the review in `body`, whose sender gives up after `waits` seconds (None: unknown).

        Raises `Unanswered` if there is no verdict.
        """


_MARGIN = 0.1
_LONGEST_MARGIN = 0.5


def time_limit(*waits: float | None) -> float:
    """Return the seconds within which an answer must be ready, given the callers' timeouts `waits`.

    The limit is the shortest timeout minus a tenth of it, at most half a second, for the way back. None means
    no timeout.
    """
    shortest = min(wait for wait in waits if wait is not None)
    return shortest - min(shortest * _MARGIN, _LONGEST_MARGIN)


async def answered(work: Awaitable[T], *, what: str, uid: str, seconds: float) -> T:
    """Return the result of an operator's function, which messages call `what`, for the review `uid`.

    Raises `Refused` and `NotConverted` as the function does, and `FunctionTooSlow` after `seconds`. Any other
    exception, including `sys.exit`, becomes the cause of a `FunctionFailed`, so it does not end the manager.
    The user sees only the exception's type, as its text may contain data that the user may not read.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except (Refused, Unanswered, NotConverted):
        raise
    except BaseException as error:
        if _is_not_the_functions(error):
            raise
        if isinstance(error, TimeoutError) and limit.expired():
            raise FunctionTooSlow(f"{what} took longer than {seconds:g} s, and was stopped") from error
        raise FunctionFailed(
            f"{what} failed unexpectedly ({type(error).__name__}); "
            f"the log of the manager says more, uid {uid}"
        ) from error


def _is_not_the_functions(error: BaseException) -> bool:
    """Return whether the error is a request to end this task.

    A cancellation may also be the function's own: it waited for a cancelled task, for example. Then the API
    server still waits for an answer.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


_ENDLESS = "Recursion limit reached"


def encoded(value: Any) -> bytes:
    """Return the JSON of `value`.

    Raises `TypeError` for what JSON cannot hold, `RecursionError` for what is nested too deeply.
    """
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        if _ENDLESS not in str(error):
            raise
        raise RecursionError(TOO_DEEP) from None
    if is_too_deep(text):
        raise RecursionError(TOO_DEEP)
    return text
