"""Errors of the communication with an API server, all of them `KubeError`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from manager.api.rights import RbacRule, advice_for
from manager.util.nesting import is_too_deep

LONGEST_RETRY_AFTER = 300.0
"""Seconds: a server that asks for more, by mistake or in malice, is asked again after these."""

_is_delay = re.compile(r"-?[0-9]+(\.[0-9]*)?").fullmatch

_SHOWN_CHARACTERS = 300
"""How much of a body that is not a Status is worth showing."""


class KubeError(Exception):
    """Any failure between this process and the API server."""


class ConfigError(KubeError):
    """How to reach the API server is missing, unreadable or wrong; the message names the file or flag."""


class NoMatch(KubeError):
    """The API server does not serve this kind: its CRD is not installed, or not in this version."""


class NoSubresource(NoMatch):
    """The API server serves the kind without this subresource: its CRD lacks `subresources`."""


class ProtocolError(KubeError):
    """The API server, or something in between, sent bytes that are not what the protocol says."""


class Fenced(KubeError):
    """Write that was not sent because this process may no longer write (another one may be leading)."""


class TransportError(KubeError):
    """No complete answer came. A write may or may not have had its effect."""


class Unreachable(TransportError):
    """No connection could be made: nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke before the answer was complete."""


class DeadlineExceeded(TransportError):
    """The answer, or the next part of a stream, did not come in time."""


class ApiError(KubeError):
    """The API server answered with an error; `str()` is the server's own message.

    Attributes:
        status: the HTTP status code.
        reason: the machine-readable reason of the Status, such as "NotFound"; "" if there was none.
        message: the human-readable message.
        details: the Status' `details` as sent (name, kind, causes…); empty if there were none.
        retry_after: seconds after which the server asks to try again, `LONGEST_RETRY_AFTER` at most, or
            None.
        resume: with a continue token that is too old, another one that goes on at the same place, in what
            there is now; else "".
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: float | None = None,
        resume: str = "",
    ) -> None:
        super().__init__(message or f"the API server answered {status} {reason}".rstrip())
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after: float | None = None
        if retry_after is not None:
            self.retry_after = float(min(max(retry_after, 0), LONGEST_RETRY_AFTER))
        self.resume = resume

    @property
    def is_namespace_terminating(self) -> bool:
        """Return whether something was not made because its namespace is being deleted."""
        causes = self.details.get("causes")
        if not isinstance(causes, list | tuple):
            return False
        return any(isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in causes)


class BadRequest(ApiError):
    """400: the request makes no sense to the server."""


class Unauthorized(ApiError):
    """401: the server does not know the client; the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: RBAC, an admission plugin or a quota says no.

    Attributes:
        asked_at: file and line, outside of the library, from which the request came; "" where none is known.
    """

    asked_at: str = ""

    @property
    def missing_right(self) -> RbacRule | None:
        """Return the permission that no role grants; None if the refusal is not the authorizer's."""
        found = _unauthorized(self.message)
        return None if found is None else RbacRule((found["group"],), (found["resource"],), (found["verb"],))

    def name_right(self, verb: str, resource: str) -> None:
        """Complete the message of a server that leaves out which right of the core group is missing."""
        self.message += f'cannot {verb} resource "{resource}" in API group ""'
        self.args = (self.message,)

    def __str__(self) -> str:
        said, missing = super().__str__(), self.missing_right
        if missing is None:
            return said
        by = f"{self.asked_at} asks for it; " if self.asked_at else ""
        return f"{said} ({by}{advice_for(missing)})"


_unauthorized = re.compile(
    r' cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
).search
"""What the authorizer says; admission says other things."""


class NotFound(ApiError):
    """404: no such object, or no such kind of object."""


class MethodNotAllowed(ApiError):
    """405: this kind does not offer that verb."""


class AlreadyExists(ApiError):
    """409: an object of this name is already there."""


class Conflict(ApiError):
    """409: the object changed since it was read, or another field manager owns the field."""


class Gone(ApiError):
    """410: the resourceVersion (or the continue token) is too old; list again."""


class TooLarge(ApiError):
    """413: the object exceeds what the server takes."""


class Invalid(ApiError):
    """422: the object violates its schema; `details["causes"]` names the fields."""


class TooManyRequests(ApiError):
    """429: the server sheds load, or a disruption budget forbids an eviction."""


class ServerError(ApiError):
    """500 and above: the server could not do it."""


class ServiceUnavailable(ServerError):
    """503: the server, or the extension server behind it, is not there now."""


class ServerTimeout(ServerError):
    """504, or reason ServerTimeout or Timeout: the server gave up; the effect is unknown."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: ServerTimeout,
}

_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "ServerTimeout": ServerTimeout,
    "Timeout": ServerTimeout,
}
"""Reasons that say more than the status code they come with."""


class _Status(msgspec.Struct):
    kind: str = ""
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for an unsuccessful response with any body, such as an HTML page.

    Other bodies than a Status are shown only if they are plain text, as proxies send it; anything else might
    be an object with secrets.
    """
    retry_after = _retry_after(headers.get("Retry-After"))
    answer = _decode(body)
    if answer is not None:
        return _from_status(status, answer, retry_after)
    try:
        message = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        message = str(status)
    if headers.get("Content-Type", "").lower().startswith("text/plain"):
        text = " ".join(body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").split())
        message = f"{message}: {text[:_SHOWN_CHARACTERS]}" if text else message
    return _class_for(status)(status, "", message, retry_after=retry_after)


def status_error(raw: bytes | memoryview | msgspec.Raw) -> ApiError:
    """Return the error that a bare Status stands for, such as the one in a watch's ERROR event."""
    answer = _decode(raw)
    if answer is None:
        return ServerError(500, "", "an error that is no Status")
    return _from_status(answer.code or 500, answer, None)


def _retry_after(value: str | None) -> float | None:
    """Return a Retry-After header as seconds; None for none or nonsense.

    A date counts as nonsense, as for client-go: API servers send a number.
    """
    text = (value or "").strip(" \t")
    return float(text) if _is_delay(text) else None


def _decode(body: bytes | memoryview | msgspec.Raw) -> _Status | None:
    if is_too_deep(body):
        return None
    try:
        answer = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return answer if answer.kind == "Status" else None


def _from_status(status: int, answer: _Status, retry_after: float | None) -> ApiError:
    details, reason, message = answer.details or {}, answer.reason or "", answer.message or ""
    if retry_after is None and isinstance(seconds := details.get("retryAfterSeconds"), int | float):
        retry_after = seconds
    resume = (answer.metadata or {}).get("continue")
    resume = resume if isinstance(resume, str) else ""
    kind = _class_for(status, reason)
    return kind(status, reason, message, details, retry_after=retry_after, resume=resume)


def _class_for(status: int, reason: str = "") -> type[ApiError]:
    by_range = ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ApiError
    return _BY_REASON.get(reason) or _BY_STATUS.get(status, by_range)
