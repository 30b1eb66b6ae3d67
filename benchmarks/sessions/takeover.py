"""A measurement of the time from the end of a leader to the first write of the other replica."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from typing import TYPE_CHECKING

from benchmarks.sessions.plane import name_of
from benchmarks.sessions.process import health_ports, wait_ready

if TYPE_CHECKING:
    from benchmarks.sessions.setup import Setup
    from tests.support.daemon import Daemon

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
START_WITHIN = 60.0
STOP_WITHIN = 30.0
TAKEOVER_WITHIN = 60.0
POLL = 0.02
# Seconds for which the leader renews its Lease before it ends: a random part of a renewal period.
LEADS = (1.0, 3.0)
HOW = {"sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}


def take_over(setup: Setup, rounds: int) -> None:
    """End the leader twice per round, by SIGTERM and by SIGKILL; each time, it restarts as the standby."""
    with health_ports(2) as addresses, contextlib.ExitStack() as stack:
        replicas = [
            (setup.replica(address, f"-{number}"), address) for number, address in enumerate(addresses)
        ]
        for process, _ in replicas:
            stack.callback(process.kill)
        for process, address in replicas:
            # The first replica becomes leader before the second one starts.
            process.start()
            wait_ready(process, address, START_WITHIN)
            generation = setup.resize()
            setup.watch.wait_generation(name_of(0), generation, replicas[0][0], START_WITHIN)
        for number in range(1, rounds + 1):
            for group, how in HOW.items():
                (leader, address), (standby, _) = replicas
                time.sleep(random.uniform(*LEADS))
                seconds = _end(setup, leader, standby, how)
                setup.recorder.record("takeover", number, {"seconds": seconds}, group=group)
                leader.start()
                wait_ready(leader, address, START_WITHIN)
                replicas.reverse()


def _end(setup: Setup, leader: Daemon, standby: Daemon, how: signal.Signals) -> float:
    lease = f"{LEASES}/bench-{setup.program.name}"
    holder = setup.plane.api.get(lease)["spec"].get("holderIdentity")
    ended = time.monotonic()
    leader.signal(how)
    # The object changes after the leader has released its Lease, so that only the standby can reconcile it.
    while leader.running and setup.plane.api.get(lease)["spec"].get("holderIdentity") in {holder, "", None}:
        if time.monotonic() - ended > STOP_WITHIN:
            raise TimeoutError(f"{leader.name} still led {STOP_WITHIN:g} s after {how.name}")
        time.sleep(POLL)
    generation = setup.resize()
    written = setup.watch.wait_generation(name_of(0), generation, standby, TAKEOVER_WITHIN)
    leader.wait(STOP_WITHIN)
    return written - ended
