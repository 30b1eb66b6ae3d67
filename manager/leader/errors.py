"""What can end an election."""

from __future__ import annotations

__all__ = ["LeadershipLost", "MalformedLease"]


class LeadershipLost(Exception):
    """This process was the leader and may no longer write; the text says why, for the log's last line."""


class MalformedLease(ValueError):
    """The server's answer is not a Lease."""
