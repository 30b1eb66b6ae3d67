"""The Python library kopf."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.peers.peer import Peer

__all__ = ["PEERS"]

PEERS: tuple[Peer, ...] = ()
