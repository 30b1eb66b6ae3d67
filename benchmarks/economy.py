"""What is left out so that a whole run stays under twenty minutes, beyond what a library cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import PARTS, WORKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers import Peer

__all__ = ["lacks_of"]

_SAME = "the setting makes no difference here"
_LONG = "left out for time"
_LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "controller-runtime-ryw": dict.fromkeys(
        ("startup", "memory", "steady", "change", "takeover", "ten"), _SAME
    ),
    "controller-runtime-1": dict.fromkeys((part for part in PARTS if part != "cold"), _SAME),
    "controller-runtime-stripped": dict.fromkeys(
        (*(part for part in PARTS if part != "memory"), *WORKED, "pods"), _SAME
    ),
    "kube-rs": dict.fromkeys(("change", "pods", "at_50", "at_200"), _LONG),
    "kopf": dict.fromkeys(("steady", "change", "ten", "pods", "at_50", "at_200", "at_300"), _LONG),
}


def lacks_of(peer: Peer) -> dict[str, str]:
    """Parts, workloads and groups that a peer is not measured in, and why; what it cannot do comes first."""
    return {**_LEFT_OUT.get(peer.name, {}), **peer.lacks}
