"""A start of every program before the measurements, so that none has the cost of being first."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from benchmarks.failures import FAILURES
from benchmarks.program import Setting
from benchmarks.sessions.process import health_ports, started, wait_ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.program import Program
    from tests.support.envtest import EnvtestControlPlane

# The usual seconds of one program.
EACH = 2.0
READY_WITHIN = 20.0
# For programs that cannot say when they are ready.
LONG_ENOUGH = 1.0


def start_once(plane: EnvtestControlPlane, program: Program, workloads: Iterable[str]) -> None:
    """Start it with each of its commands once, until it is ready; what fails here fails later too."""
    commands: dict[tuple[str, ...], str] = {}
    for workload in workloads:
        commands.setdefault(tuple(program.others.get(workload, program.command)), workload)
    for workload in commands.values():
        with health_ports() as (address,), contextlib.suppress(*FAILURES):
            setting = Setting(workload=workload, health_address=address)
            with started(program, plane, setting) as process:
                if program.tells_readiness:
                    wait_ready(process, address, READY_WITHIN)
                else:
                    time.sleep(LONG_ENOUGH)
