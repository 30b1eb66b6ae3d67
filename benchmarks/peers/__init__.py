"""The operators that are compared: one package each, and each with `PEERS`, its rows of the tables.

A peer's program does the work of `controllers/cache/memcached.py`, no more and no less, and has these flags:

    PROGRAM --kubeconfig FILE --concurrency N --health-probe-bind-address HOST:PORT
            [--workload memcached|pods-metadata|pods|ten]
            [--leader-elect --leader-election-id ID --leader-election-namespace NAMESPACE]

`/readyz` there answers 200 once all caches are synced, on a standby replica too, and not before. A workload
that a library cannot do: the program ends with 2 and one line that says so; `Peer.lacks` says so beforehand.
"""

from __future__ import annotations

from benchmarks.peers import bare, controller_runtime, kopf, kube_rs, ours
from benchmarks.peers.peer import LeftOutError, Peer, Ready

__all__ = ["PEERS", "LeftOutError", "Peer", "Ready"]

# In the order of the tables.
PEERS: tuple[Peer, ...] = (*ours.PEERS, *controller_runtime.PEERS, *kube_rs.PEERS, *kopf.PEERS, *bare.PEERS)
