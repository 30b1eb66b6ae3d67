"""Questions that get no verdict, and how the API server is told so.

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

from manager.logs import shortened


class Unanswered(Exception):
    """There is no verdict, so the failure policy of the webhook decides; the message is for the user.

    A verdict in a review would refuse the request whatever that policy says. So this is told by the status of
    HTTP, with a `Status` as body, whose message the API server hands on.
    """

    code: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))  # it may quote what a stranger has sent


class BadReview(Unanswered):
    """What was asked is no question that this webhook can answer."""

    code = HTTPStatus.BAD_REQUEST
    reason = "BadRequest"


class TooCostly(BadReview):
    """To read what was sent would take too long, or too much memory."""

    code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    reason = "RequestEntityTooLarge"


class Busy(Unanswered):
    """There is no room or no time for it now; the message says to come again."""

    code = HTTPStatus.SERVICE_UNAVAILABLE
    reason = "ServiceUnavailable"


class FunctionFailed(Unanswered):
    """The function has a fault; the log has its traceback."""


class FunctionTooSlow(Unanswered):
    """The function has taken too long, and was stopped."""

    code = HTTPStatus.GATEWAY_TIMEOUT
    reason = "Timeout"


class NotConverted(Exception):
    """An object cannot be converted; one line for the user, which names it.

    If a fault of the function is the reason, it is the cause.
    `told` has what a line of the log says of the object.
    """

    def __init__(self, message: str, *, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(shortened(message))
        self.told = told or {}


def status_body(code: int, reason: str, message: str) -> Mapping[str, Any]:
    """A `Status` of the API, for an answer that is nothing else."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
