"""How much clients may take of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults fit pages with few readers."""

    connections: int = 128
    """Open connections at once. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """For a TLS handshake."""

    head: float = 10.0
    """For the first byte of a new connection, and from the first byte of a head to its last."""

    exchange: float = 120.0
    """From the head of a request to the end of its answer."""

    write_stall: float = 10.0
    """For a client that does not read its answer."""

    linger: float = 2.0
    """For the unread rest of a body, and for a client to answer the end of a TLS session."""

    keep_alive: float = 90.0
    """For the next request, as with Go's clients and servers: a scraper that comes every minute finds its
    connection open."""

    eviction: float = 1.0
    """Until a client that neither sends the rest of its request nor reads its answer loses its connection to
    another client, if no connection is left."""

    drain: float = 0.5
    """For answers under way once the server stops."""
