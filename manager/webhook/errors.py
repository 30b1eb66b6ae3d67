"""Failures to reach a verdict, and the HTTP errors that report them.

Unanswered
├── BadReview         400   not the JSON of a review, or not one for this webhook
│   └── TooCostly     413   to read it would take too long, or too much memory
├── Busy              503   too much else is being answered
├── FunctionFailed    500   the operator's function raised something else than Refused
└── FunctionTooSlow   504   it took longer than the API server waits
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from manager.telemetry.logs import shortened


class Unanswered(Exception):
    """Failure to reach a verdict, so the webhook's failure policy decides; the message is for the user.

    A verdict in a review would refuse the request whatever that policy says. So the response is an HTTP error
    with a `Status` as body, whose message the API server passes on.
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
