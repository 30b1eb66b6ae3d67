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
    """Answers reviews, as bytes; it does not know HTTP."""

    @property
    def path(self) -> str:
        """Where it is asked."""

    @property
    def max_body(self) -> int:
        """How many bytes a review may have."""

    @property
    def identified(self) -> bool:
        """Whether an API server can be told to show a certificate there."""

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """The answer to the review in `body`, whose sender gives up after `waits` seconds (None: not known).

        Raises `Unanswered` where there can be none.
        """


_MARGIN = 0.1
_LONGEST_MARGIN = 0.5


def time_limit(*waits: float | None) -> float:
    """Seconds for an answer to one who waits for the shortest of `waits`.

    A little less than that, a tenth or half a second, because the answer has to get there. None is for as
    long as there is.
    """
    shortest = min(wait for wait in waits if wait is not None)
    return shortest - min(shortest * _MARGIN, _LONGEST_MARGIN)


async def answered(work: Awaitable[T], *, what: str, uid: str, seconds: float) -> T:
    """The result of an operator's function, which `what` says in a message, for the review `uid`.

    Raises `Refused` and `NotConverted` as the function does, `FunctionTooSlow` after `seconds`, and
    `FunctionFailed` for everything else that it raises, with that as its cause: `sys.exit` in a function ends
    no manager. The user hears only of what sort it is: its text may have more of the object, or of the
    program, than the user may know.
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
    """Whether somebody wants this task to end.

    A cancellation may also be the function's own: it waited for a task that was cancelled, say. Then the API
    server is still there, and waits for an answer.
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
