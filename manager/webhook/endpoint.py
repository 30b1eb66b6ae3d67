"""An HTTP path for reviews: bytes in and out, the call of an operator's function, and failures.

Unanswered            500   or the code of the exception
└── BadReview         400   not the JSON of a review, or a review for another webhook
    └── TooCostly     413   reading it would take too much time or memory
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from prometheus_client import Counter

from manager.telemetry.logs import get_logger, shortened
from manager.util.nesting import TOO_DEEP, is_too_deep
from manager.util.rate_limit import Lines

Q = TypeVar("Q")

LINES = 60
"""Log lines per minute about refusals and failures of one webhook. Any client that reaches the port can cause
more; the metrics count all."""

_MARGIN, _LONGEST_MARGIN = 0.1, 0.5

_ENDLESS = "Recursion limit reached"

_REASONS = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}

_log = get_logger("webhook")


class Unanswered(Exception):
    """The webhook cannot decide, so the failure policy decides; the message is for the user.

    The response is an HTTP error with a `Status` as its body; the API server passes on the message.
    """

    code = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(self, message: str, code: HTTPStatus | None = None) -> None:
        super().__init__(shortened(message))  # it may quote text from an unknown sender
        self.code = code or self.code

    @property
    def body(self) -> bytes:
        """Return the `Status` for the body of the response."""
        return orjson.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(self),
                "reason": _REASONS[self.code],
                "code": self.code,
            }
        )


class BadReview(Unanswered):
    """The request is not a review that this webhook can answer."""

    code = HTTPStatus.BAD_REQUEST


class TooCostly(BadReview):
    """Parsing the request would take too long, or too much memory."""

    code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Endpoint(ABC, Generic[Q]):
    """A path at which reviews are answered, independently of HTTP."""

    path: str
    max_body: ClassVar[int]
    """Bytes of a review."""

    work: str
    """A name for the work on a review, for messages."""

    timeout_seconds: float
    """The time limit for an answer, in seconds."""

    identified: ClassVar[bool]
    """Whether the API server can be configured to present a certificate for this path."""

    def __init__(self, panics: Counter) -> None:
        self._panics = panics
        self._lines = Lines(per_minute=LINES)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """Answer the review in `body`, whose sender waits for `waits` seconds (None: unknown).

        Raises `Unanswered` for an invalid review, after the time limit, and if the function fails. The user
        sees only the type of the function's error: its text may contain data that the user may not read.
        """
        question = await self._read(body)
        seconds = min(self.timeout_seconds, waits or self.timeout_seconds)
        seconds -= min(seconds * _MARGIN, _LONGEST_MARGIN)  # for the way back
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._answer(question)
        except BadReview:
            raise
        except BaseException as error:
            if _ends_this_task(error):
                raise
            if isinstance(error, TimeoutError) and limit.expired():
                text = f"{self.work} took longer than {seconds:g} s, and was stopped"
                failure = Unanswered(text, HTTPStatus.GATEWAY_TIMEOUT)
            else:
                self._panics.inc()
                sort, uid = type(error).__name__, self._fields(question)["uid"]
                failure = Unanswered(
                    f"{self.work} failed unexpectedly ({sort}); see the manager's log, uid {uid}"
                )
            self._log_line("cannot answer a review", question, error=str(failure), exc_info=error)
            raise failure from error

    @abstractmethod
    async def _read(self, body: bytes | bytearray) -> Q:
        """Read a review. Raises `BadReview`."""

    @abstractmethod
    async def _answer(self, question: Q) -> bytes | bytearray: ...

    @abstractmethod
    def _fields(self, question: Q) -> Mapping[str, Any]:
        """Return the log fields of a review, including its `uid`, without any content of an object."""

    def _log_line(self, event: str, question: Q, *, level: str = "error", **more: object) -> None:
        self._lines.log(getattr(_log, level), event, **{**self._fields(question), **more})


def _ends_this_task(error: BaseException) -> bool:
    """Return whether the error ends this task; a cancellation inside the operator's function does not."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def encoded(value: Any) -> bytes:
    """Return the JSON of `value`.

    Raises `TypeError` for values that are not JSON, `RecursionError` for too deep nesting.
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
