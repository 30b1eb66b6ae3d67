"""What clients of a server may take: in connections, and in time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults are for pages that few read: metrics, say."""

    connections: int = 128
    """How many there may be at once. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """For a TLS handshake."""

    head: float = 10.0
    """From the first byte of a request, or from the connection's start, until its head is complete."""

    exchange: float = 120.0
    """From one request to the next: for its body, the answer, for taking that, for keeping quiet after."""

    taking: float = 10.0
    """For a client that takes an answer more slowly than it is made to go on with it."""

    goodbye: float = 2.0
    """For a client to take the last words and to answer the end of a TLS session."""

    keep_alive: float = 90.0
    """That a connection is kept for the next request, as by Go's clients and servers: a scraper that comes
    every minute finds it open."""

    patience: float = 1.0
    """With a client that does not send the rest of its request, or does not take its answer, while another
    one waits for a connection."""

    finish: float = 0.5
    """For answers under way once the server stops."""
