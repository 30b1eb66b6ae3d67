"""The operators to compare (peers): each package defines `PEERS`, which are its rows in the tables.

A peer's program does exactly the work of `controllers/cache/memcached.py`, and has these flags:

    PROGRAM --kubeconfig FILE --concurrency N --health-probe-bind-address HOST:PORT
            [--workload memcached|pods-metadata|pods|deployments-metadata|deployments|ten]
            [--leader-elect --leader-election-id ID --leader-election-namespace NAMESPACE]

`/readyz` responds with 200 only after all caches are synced, on a standby replica too. For a workload that
its library does not support, the program prints one line and exits with 2; `Peer.lacks` lists such workloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import PARTS, WORKED
from benchmarks.peers import bare, controller_runtime, kopf, kube_rs, ours
from benchmarks.peers.building import LeftOutError, Peer, Ready
from benchmarks.peers.ours import ALL_FIVE, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PEERS", "LeftOutError", "Peer", "Ready", "lacks_of"]

# In the order of the tables.
PEERS: tuple[Peer, ...] = (*ours.PEERS, *controller_runtime.PEERS, *kube_rs.PEERS, *kopf.PEERS, *bare.PEERS)

# Measurements that a full run skips, so that it takes three quarters of an hour.
_SAME = "the setting makes no difference here"
_LONG = "left out to save time"
_OURS = "it is an aim of this project's alone"


def _but(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in PARTS if part not in parts)


_LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "controller-runtime-ryw": dict.fromkeys(_but("cold", "latency"), _SAME),
    "controller-runtime-onepass": dict.fromkeys(_but("cold", "latency"), _SAME),
    "controller-runtime-1": dict.fromkeys(_but("cold"), _SAME),
    "controller-runtime-stripped": dict.fromkeys((*_but("memory"), *WORKED, "pods"), _SAME),
    "kube-rs": dict.fromkeys(("change", "pods", "others", "done"), _LONG),
    "kopf": dict.fromkeys(("latency", "steady", "change", "ten", "pods", "others", "done"), _LONG),
}


def lacks_of(peer: Peer) -> dict[str, str]:
    """Return the parts, workloads and groups that a peer skips, with reasons, preferably of `Peer.lacks`."""
    ours = {} if peer.name == NAME else {"backlog": _OURS, ALL_FIVE: _OURS}
    return {**ours, **_LEFT_OUT.get(peer.name, {}), **peer.lacks}
