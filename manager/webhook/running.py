"""Calling an operator's function: within a time, and with a clear answer when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from manager.webhook.converter import NotConverted
from manager.webhook.refused import Refused
from manager.webhook.unanswered import FunctionFailed, FunctionTooSlow, Unanswered

__all__ = ["answered", "time_limit"]

T = TypeVar("T")

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
