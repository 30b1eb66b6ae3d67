"""What a store lets its clients take: all that costs memory, time or disk has an end."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import resource
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

__all__ = ["MAX_PETS", "MAX_TEXT", "MAX_VALUES", "Limits", "TooFewFiles", "excess_of", "within_open_files"]

MAX_PETS: Final = 1000
"""Pets that one call may bring: some ten milliseconds of work."""

MAX_VALUES: Final = 10_000
"""Ids, or values of one filter, that one call may bring."""

MAX_TEXT: Final = 1024
"""Bytes that a name or a key may have."""


_FILES_OF_ONE: Final = 3
"""Open files for each client: its connection, and both ends of the one from there to gRPC."""

_OTHER_FILES: Final = 80
"""Open files beside those: 32 of the page of metrics, the database, logs, and gRPC's own."""

_LEAST_CONNECTIONS: Final = 8

_log = logging.getLogger("petstore.limits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server."""

    connections: int = 128
    """Of one that comes above that, or another one, is decided by whose address has most of them."""

    calls: int = 2048
    """Calls at once, whether they get anywhere or not; each connection has its share of them."""

    searches: int = 32
    """Searches among them."""

    message_bytes: int = 256 * 1024
    """Of a request."""

    waiting_pets: int = 10_000
    """Pets in calls that wait for their turn to be written."""

    pets: int = 1_000_000
    """Pets in the store."""

    data_bytes: int = 768 * 1024 * 1024
    """Of the pages of the file that hold something."""

    silent_seconds: float = 5.0
    """What who connects may take until it has said that it speaks HTTP/2, and who begins a call until its
    request is here."""

    call_seconds: float = 60.0
    """What a call that changes something may take, whatever deadline its client has set."""

    reader_seconds: float = 20.0
    """How long a search waits for its client to take the next pets."""

    @property
    def calls_of_one(self) -> int:
        """Calls of one connection; its client waits with more. So no other client's calls keep it waiting."""
        return max(1, self.calls // self.connections)

    @property
    def requests(self) -> int:
        """Calls that wait for their request, or for room to work on it."""
        return max(1, self.calls // 8)

    @property
    def streams(self) -> int:
        """Calls that end when their client likes: who watches the health, and reflection."""
        return max(1, self.calls // 16)

    def channel_arguments(self) -> tuple[tuple[str, Any], ...]:
        """What gRPC itself has to know."""
        return (
            ("grpc.max_concurrent_streams", self.calls_of_one * 2),
            # Of more that wait than this, gRPC gives up some at random, honest ones among them: as many as
            # there can be, and as many that were given up.
            ("grpc.server.max_pending_requests", 4 * self.calls_of_one * self.connections),
            ("grpc.server.max_pending_requests_hard_limit", 4 * self.calls_of_one * self.connections),
            ("grpc.max_receive_message_length", self.message_bytes),
            # Else each call would hold a whole request, and more, before it has a place.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", 16_384),
            ("grpc.http2.settings_timeout", round(self.silent_seconds * 1000)),
            ("grpc.max_connection_idle_ms", 300_000),
            # Nothing else ends a call whose client takes no bytes: so each connection ends some time. Those
            # that are well make a new one in between two calls, unnoticed.
            ("grpc.max_connection_age_ms", 300_000),
            ("grpc.max_connection_age_grace_ms", 300_000),
            # A client that is gone without a word.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            # Clients may look whether an idle connection still lives, every ten seconds and without a call;
            # who does so more often is sent away.
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.http2.max_ping_strikes", 2),
        )


class TooFewFiles(Exception):
    """The process may have too few files open; the text says how many."""


def within_open_files(limits: Limits) -> Limits:
    """Raise the number of files that may be open as far as is allowed, and return what can be kept with it.

    Else whoever comes when there is no descriptor left is cut off, Prometheus too, and nothing says why.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY or limits.connections * _FILES_OF_ONE + _OTHER_FILES <= soft:
        return limits
    left = (soft - _OTHER_FILES) // _FILES_OF_ONE
    if left < _LEAST_CONNECTIONS:
        least = _OTHER_FILES + _LEAST_CONNECTIONS * _FILES_OF_ONE
        raise TooFewFiles(f"{soft} open files are allowed (ulimit -n), and at least {least} are needed")
    _log.warning(
        "%d open files are allowed (ulimit -n), so that there are at most %d connections and not %d"
        " (--max-connections)",
        soft,
        left,
        limits.connections,
    )
    return dataclasses.replace(limits, connections=left)


def excess_of(message: Message) -> str:
    """What a request brings too much of; "" for nothing."""
    for field, value in message.ListFields():
        most = MAX_PETS if field.name == "pets" else MAX_VALUES
        if field.is_repeated and len(value) > most:
            return f"{field.name}: at most {most} are expected, not {len(value)}"
    return ""
