"""A request that passed the fault proxy, and how to pick some of them."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from aiohttp import web


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """One request; `status` is None until it is answered.

    `over` is when the proxy was done with it, answered or not; None while it is under way.
    """

    method: str
    path: str
    query: dict[str, str]
    user_agent: str
    at: float = dataclasses.field(default_factory=time.monotonic)
    status: int | None = None
    over: float | None = None

    @classmethod
    def of(cls, request: web.Request) -> Self:
        """What the request line and the headers say."""
        return cls(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            user_agent=request.headers.get("User-Agent", ""),
        )

    @property
    def watch(self) -> bool:
        """Whether it asks for a stream of events."""
        return self.query.get("watch", "").lower() in {"1", "true"}

    @property
    def stream(self) -> bool:
        """Whether its answer goes on for long: a watch, or a log that is followed."""
        return self.watch or self.query.get("follow", "").lower() in {"1", "true"}

    def __str__(self) -> str:
        kind = "WATCH" if self.watch else self.method
        return f"{kind} {self.path} -> {self.status or 'no answer yet'}"


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Requests of this method, whose path contains this pattern, that are (not) watches; None is any."""

    method: str | None = None
    path: str | None = None
    watch: bool | None = None

    def __call__(self, exchange: Exchange) -> bool:
        return (
            self.method in {None, exchange.method}
            and (self.path is None or re.search(self.path, exchange.path) is not None)
            and self.watch in {None, exchange.watch}
        )
