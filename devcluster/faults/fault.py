"""Injected faults, and the requests that they apply to."""

from __future__ import annotations

import enum
import re
from typing import Any

import msgspec

from devcluster.http_call import ApiRequest

__all__ = ["Action", "Fault", "Match"]

_TRUE = frozenset({"1", "true"})


class Action(enum.Enum):
    """The effect of a fault on a request."""

    DELAY = "delay"
    """Delay the response by `seconds`."""
    FAIL = "fail"
    """Answer with `code`; the request has no effect."""
    CUT_REQUEST = "cut-request"
    """Break the connection before the request has an effect."""
    CUT_ANSWER = "cut-answer"
    """Break the connection after the request has had its effect, before the response."""
    CUT_WATCH = "cut-watch"
    """Break the watch stream in the middle of the line after `lines` complete ones."""
    STALL_WATCH = "stall-watch"
    """Send no more after `lines` lines, but keep the watch stream open."""


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests meant: all that is given must be so. `path` and `user_agent` are patterns to be found."""

    method: str | None = None
    path: str | None = None
    user_agent: str | None = msgspec.field(default=None, name="userAgent")
    watch: bool | None = None

    def __post_init__(self) -> None:
        for name, pattern in (("path", self.path), ("userAgent", self.user_agent)):
            if pattern is not None:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"{name} is not a regular expression: {error}") from error

    def __call__(self, request: ApiRequest) -> bool:
        """Return whether `request` matches."""
        return (
            self.method in {None, request.method}
            and (self.path is None or re.search(self.path, request.path) is not None)
            and (
                self.user_agent is None
                or re.search(self.user_agent, request.headers.get("user-agent", "")) is not None
            )
            and (self.watch is None or self.watch is (request.option("watch").lower() in _TRUE))
        )


class Fault(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A fault that occurs `times` times, or until it is removed."""

    do: Action
    match: Match = Match()
    times: int | None = None
    """The number of occurrences; None for no limit."""
    seconds: float = 0.0
    """The length of a delay; for any other action, the wait before it."""
    code: int = 503
    """The status code of `fail`."""
    retry_after: int | None = msgspec.field(default=None, name="retryAfter")
    """The `Retry-After` of `fail`, in seconds."""
    lines: int = 0
    """The number of lines before a stream is cut or stalled."""
    hits: int = 0
    """The number of occurrences so far."""

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError("times must be 1 or more")
        if self.seconds < 0:
            raise ValueError("seconds must not be negative")
        if not 400 <= self.code <= 599:  # noqa: PLR2004 -- the codes of failures
            raise ValueError("code must be between 400 and 599")
        if self.lines < 0:
            raise ValueError("lines must not be negative")

    @property
    def used_up(self) -> bool:
        """Whether the fault has occurred `times` times."""
        return self.times is not None and self.hits >= self.times

    @property
    def streams_only(self) -> bool:
        """Whether the fault affects only streams."""
        return self.do in {Action.CUT_WATCH, Action.STALL_WATCH}

    def applies_to(self, request: ApiRequest) -> bool:
        """Return whether the fault affects `request`."""
        if self.used_up or (self.streams_only and request.option("watch").lower() not in _TRUE):
            return False
        return self.match(request)

    def to_json(self) -> dict[str, Any]:
        """Return the fault as the endpoint shows it."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown
