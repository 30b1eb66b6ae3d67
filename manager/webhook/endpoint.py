"""A served path: the call of an operator's function, and the HTTP errors that report a failure.

Unanswered
├── BadReview         400   not the JSON of a review, or not one for this webhook
│   └── TooCostly     413   to read it would take too long, or too much memory
├── Busy              503   too much else is being answered
├── FunctionFailed    500   the operator's function raised something else than Refused
└── FunctionTooSlow   504   it took longer than the API server waits
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import orjson

from manager.telemetry.logs import shortened
from manager.util.nesting import TOO_DEEP, is_too_deep
from manager.webhook.denial import Refused

T = TypeVar("T")

LINES = 60
"""Log lines a minute about refusals and failures of one webhook. Any client that reaches the port can cause
more; the metrics count all."""

_MARGIN, _LONGEST_MARGIN = 0.1, 0.5

_ENDLESS = "Recursion limit reached"


class Unanswered(Exception):
    """Failure to reach a verdict, so the webhook's failure policy decides; the message is for the user.

    The response is an HTTP error with a `Status` as body, whose message the API server passes on.
    """

    code: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))  # it may quote what a stranger has sent


class BadReview(Unanswered):
    """The request is not a review that this webhook can answer."""

    code = HTTPStatus.BAD_REQUEST
    reason = "BadRequest"


class TooCostly(BadReview):
    """Parsing the request would take too long, or too much memory."""

    code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    reason = "RequestEntityTooLarge"


class Busy(Unanswered):
    """Lack of capacity or time at the moment; the message says to retry."""

    code = HTTPStatus.SERVICE_UNAVAILABLE
    reason = "ServiceUnavailable"


class FunctionFailed(Unanswered):
    """The function has a bug; the log has its traceback."""


class FunctionTooSlow(Unanswered):
    """The function took too long, and was stopped."""

    code = HTTPStatus.GATEWAY_TIMEOUT
    reason = "Timeout"


class NotConverted(Exception):
    """An object cannot be converted; one line for the user, which names it.

    If the function has a bug, its error is the cause. `told` has the fields of the object for the log.
    """

    def __init__(self, message: str, *, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(shortened(message))
        self.told = told or {}


def status_body(code: int, reason: str, message: str) -> Mapping[str, Any]:
    """Return a `Status` of the API for a response outside of a review."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def time_limit(*waits: float | None) -> float:
    """Return the seconds for an answer: the shortest of the timeouts `waits`, less the way back.

    That is a tenth, at most half a second. None means no timeout.
    """
    shortest = min(wait for wait in waits if wait is not None)
    return shortest - min(shortest * _MARGIN, _LONGEST_MARGIN)


async def answered(work: Awaitable[T], *, what: str, uid: str, seconds: float) -> T:
    """Return the result of an operator's function, which messages call `what`, for the review `uid`.

    Raises `Refused` and `NotConverted` as the function does, and `FunctionTooSlow` after `seconds`. Any other
    exception, including `sys.exit`, becomes the cause of a `FunctionFailed`. The user sees only its type, as
    its text may contain data that the user may not read.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except (Refused, Unanswered, NotConverted):
        raise
    except BaseException as error:
        if _ends_this_task(error):
            raise
        if isinstance(error, TimeoutError) and limit.expired():
            raise FunctionTooSlow(f"{what} took longer than {seconds:g} s, and was stopped") from error
        raise FunctionFailed(
            f"{what} failed unexpectedly ({type(error).__name__}); "
            f"the log of the manager says more, uid {uid}"
        ) from error


def _ends_this_task(error: BaseException) -> bool:
    """Return whether the error asks this task to end, and is no cancellation of the function's own."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


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
