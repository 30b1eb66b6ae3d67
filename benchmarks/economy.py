"""What is left out so that a whole run stays under twenty minutes, beyond what a library cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers import Peer

__all__ = ["lacks_of"]

_SAME = "as with its defaults: the setting is about what a reconcile reads after its own writes"
_LONG = "left out for time: it is measured in what a new operator's author asks of it first"
_LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "controller-runtime-ryw": dict.fromkeys(
        ("startup", "memory", "steady", "change", "takeover", "ten"), _SAME
    ),
    "kopf": dict.fromkeys(("steady", "change", "ten", "pods"), _LONG),
}


def lacks_of(peer: Peer) -> dict[str, str]:
    """All parts and workloads that a peer is not measured in, and why; what it cannot do comes first."""
    return {**_LEFT_OUT.get(peer.name, {}), **peer.lacks}
