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
"""The longest accepted Retry-After in seconds; a server may ask for more by mistake or with bad intent."""

_is_delay = re.compile(r"-?[0-9]+(\.[0-9]*)?").fullmatch

_SHOWN_CHARACTERS = 300
"""The number of characters shown of a body that is not a Status."""


class KubeError(Exception):
    """Any failure between this process and the API server."""


class ConfigError(KubeError):
    """The API server's configuration is missing, unreadable or invalid, or does not support the call."""


class NoMatch(KubeError):
    """The API server does not serve this kind: its CRD is not installed, or lacks this version."""


class NoSubresource(NoMatch):
    """The API server serves the kind without this subresource: its CRD lacks `subresources`."""


class ProtocolError(KubeError):
    """The API server, or a proxy before it, sent bytes that violate the protocol."""


class Fenced(KubeError):
    """A write was not sent, or was dropped in flight: this process may not write (another may be leading)."""


class TransportError(KubeError):
    """No complete answer was received. A write may or may not have had its effect."""


class Unreachable(TransportError):
    """No connection could be opened: nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke before the answer was complete."""


class DeadlineExceeded(TransportError):
    """The answer, or the next part of a stream, did not arrive in time."""


class ApiError(KubeError):
    """The API server answered with an error; `str()` begins with the server's message, if any.

    Attributes:
        status: the HTTP status code.
        reason: the machine-readable reason of the Status, such as "NotFound"; "" without one.
        message: the human-readable message.
        details: the Status' `details` as sent (name, kind, causes…); empty without any.
        retry_after: seconds after which the server wants a retry, `LONGEST_RETRY_AFTER` at most, or None.
        resume: if the continue token was too old, another token for the same place in the current list; else
            "".
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
        """Return whether an object was not created because its namespace is being deleted."""
        causes = self.details.get("causes")
        if not isinstance(causes, list | tuple):
            return False
        return any(isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in causes)


class BadRequest(ApiError):
    """400: the server cannot process the request."""


class Unauthorized(ApiError):
    """401: the server does not recognise the client; the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: RBAC, an admission plugin or a quota refuses the request.

    Attributes:
        asked_at: file and line, outside of the library, of the call that caused the request; "" if unknown.
    """

    asked_at: str = ""

    @property
    def missing_right(self) -> RbacRule | None:
        """Return the permission that no role grants; None if the refusal has another cause than RBAC."""
        found = _unauthorized(self.message)
        return None if found is None else RbacRule((found["group"],), (found["resource"],), (found["verb"],))

    def name_right(self, verb: str, resource: str) -> None:
        """Add the missing right, in the core group, to a message that names none."""
        self.message += f'cannot {verb} resource "{resource}" in API group ""'
        self.args = (self.message,)

    def __str__(self) -> str:
        said, missing = super().__str__(), self.missing_right
        if missing is None:
            return said
        by = f"{self.asked_at} sends this request; " if self.asked_at else ""
        return f"{said} ({by}{advice_for(missing)})"


_unauthorized = re.compile(
    r' cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
).search
"""Matches the authorizer's messages; admission has other messages."""


class NotFound(ApiError):
    """404: the object, or its kind, does not exist."""


class MethodNotAllowed(ApiError):
    """405: this kind does not offer that verb."""


class AlreadyExists(ApiError):
    """409: an object with this name already exists."""


class Conflict(ApiError):
    """409: the object changed since it was read, or another field manager owns the field."""


class Gone(ApiError):
    """410: the resourceVersion (or the continue token) is too old; list again."""


class TooLarge(ApiError):
    """413: the object is larger than the server accepts."""


class Invalid(ApiError):
    """422: the object violates its schema; `details["causes"]` names the fields."""


class TooManyRequests(ApiError):
    """429: the server is overloaded, or a disruption budget forbids an eviction."""


class ServerError(ApiError):
    """500 and above: the server failed."""


class ServiceUnavailable(ServerError):
    """503: the server, or the extension server behind it, is not available now."""


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
"""Reasons that are more specific than their status code."""


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

    A body that is not a Status is shown only if it is plain text, as sent by proxies; anything else might be
    an object with secrets.
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
    """Return the error for a Status, such as the one in a watch's ERROR event."""
    answer = _decode(raw)
    if answer is None:
        return ServerError(500, "", "an error that is no Status")
    return _from_status(answer.code or 500, answer, None)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds in a Retry-After header; None if it is missing, or a date, as in client-go."""
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
