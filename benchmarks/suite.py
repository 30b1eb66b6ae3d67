"""A run of all parts of the benchmarks for all programs (peers), in rounds."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

from benchmarks.machine import Pace
from benchmarks.parts import PARTS, WORKED
from benchmarks.peers.ours import ALL_FIVE
from benchmarks.program import Setting
from benchmarks.results import Recorder
from benchmarks.sessions import busy, five, many, pods, quiet
from benchmarks.sessions.plane import fresh_plane
from benchmarks.sessions.process import FAILURES, health_ports, reason_of, started, wait_ready
from benchmarks.sessions.setup import Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from benchmarks.parts import Sizes
    from benchmarks.program import Program
    from benchmarks.progress import Budget, Progress
    from benchmarks.results import Results
    from tests.support.envtest import EnvtestControlPlane

__all__ = ["Suite", "Taking"]

# After this number of failures, a peer is left out of further rounds.
CHANCES = 2
# The time limit of a first start, and the waiting time for programs without a readiness endpoint.
WARM_WITHIN, LONG_ENOUGH = 20.0, 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Taking:
    """A program to measure (peer), with the parts and workloads that it skips, and the reasons."""

    name: str
    program: Program
    lacks: Mapping[str, str]


class Suite:
    """A run of the benchmarks; `results` contains the figures of every finished step."""

    def __init__(
        self,
        peers: Iterable[Taking],
        parts: Iterable[str],
        results: Results,
        *,
        rounds: int,
        sizes: Sizes,
        save: Callable[[], None],
        budget: Budget,
    ) -> None:
        self._peers = {peer.name: peer for peer in peers}
        self._parts = set(parts)
        self._rounds = rounds
        self._sizes = sizes
        self._save = save
        self._budget = budget
        pace = Pace()
        self._recorders = {
            name: Recorder(results, name, lacks=peer.lacks, pace=pace.since_last)
            for name, peer in self._peers.items()
        }
        self._results = results
        self._failures = dict.fromkeys(self._peers, 0)

    def run(self, progress: Progress) -> None:
        """Measure all parts; a program that fails is recorded as failed."""
        self._warm_up(progress)
        for number in self._budget.rounds(self._rounds, "programs one after the other"):
            for peer in quiet.rotated(self._peers, number):
                self._busy(peer, number, progress)
                self._save()
        self._five(progress)
        self._many(progress)
        self._pods(progress)
        self._quiet(progress)
        progress.end()

    def _with_five(self) -> list[str]:
        return [
            peer
            for peer in self._peers
            if ALL_FIVE not in self._peers[peer].lacks and self._of(peer, ["memory"])
        ]

    def _other_workloads(self, peer: str) -> list[str]:
        return [each for each in many.WORKLOADS if each not in self._peers[peer].lacks]

    def _warm_up(self, progress: Progress) -> None:
        progress.step("", "all", "every program once")
        with fresh_plane() as plane:
            for peer in self._peers.values():
                workloads = ["memcached", *self._workloads(peer.name)]
                _start_once(plane, peer.program, workloads)

    def _busy_parts(self, peer: str) -> set[str]:
        parts = self._of(peer, busy.PARTS)
        # The pods of part `memory` have their own control plane.
        return parts - {"memory"} if set(WORKED) <= set(self._peers[peer].lacks) else parts

    def _sizes_of(self, peer: str) -> Sizes:
        lacks = self._peers[peer].lacks
        rates = tuple(rate for rate in self._sizes.rates if f"at_{rate}" not in lacks)
        return dataclasses.replace(self._sizes, rates=rates)

    def _of(self, peer: str, parts: Iterable[str]) -> set[str]:
        return {part for part in parts if part in self._parts and part not in self._peers[peer].lacks}

    def _workloads(self, peer: str) -> list[str]:
        if "memory" not in self._of(peer, ["memory"]):
            return []
        return [each for each in pods.WORKLOADS if each not in self._peers[peer].lacks]

    def _busy(self, peer: str, number: int, progress: Progress) -> None:
        parts, sizes = self._busy_parts(peer), self._sizes_of(peer)
        if not parts or self._failures[peer] >= CHANCES:
            return
        recorder = self._recorders[peer]

        def step(what: str) -> None:
            progress.step(number, peer, what)

        try:
            busy.Busy(self._peers[peer].program, number, sizes, recorder, step).run(parts)
        except FAILURES as error:
            self._failures[peer] += 1
            progress.note(f"{peer}, round {number}: {reason_of(error)}")
            for part, group in busy.missing(parts, self._results, peer, number, sizes):
                recorder.fail(part, number, reason_of(error), group=group)

    def _five(self, progress: Progress) -> None:
        for peer in self._with_five():
            progress.step("", peer, "all five operators, their samples")
            recorder, program, settle = self._recorders[peer], self._peers[peer].program, self._sizes.settle
            try:
                with five.plane_with_samples() as (plane, store):
                    for number in range(1, self._rounds + 1):
                        progress.step(number, peer, "all five operators, idle")
                        five.idle(plane, store, program, number, recorder, settle)
            except FAILURES as error:
                recorder.fail("memory", 1, reason_of(error), group=ALL_FIVE)
            self._save()

    def _many(self, progress: Progress) -> None:
        for peer in self._peers:
            parts = self._of(peer, many.PARTS)
            if "others" in parts:
                self._foreign_objects(peer, progress)
            if parts - {"others"}:
                self._own(peer, parts, progress)
            self._save()

    def _foreign_objects(self, peer: str, progress: Progress) -> None:
        sizes, workloads = self._sizes, self._other_workloads(peer)
        if not self._budget.allows(f"{sizes.others} Deployments of others: {peer}"):
            return
        recorder = self._recorders[peer]
        try:
            progress.step("", peer, f"{sizes.others} Deployments of others")
            with self._setup(peer) as setup:
                setup.grow(sizes.among)
                setup.stop()
                many.store_others(setup, sizes.others)
                for number in range(1, many.OTHERS_ROUNDS + 1):
                    for workload in workloads:
                        progress.step(number, peer, f"beside others: {workload}")
                        many.others(setup, sizes, workload, number)
                    self._save()
        except FAILURES as error:
            recorder.fail("others", 1, reason_of(error))
            progress.note(f"{peer}, beside others: {reason_of(error)}")

    def _own(self, peer: str, parts: set[str], progress: Progress) -> None:
        sizes = self._sizes
        if not self._budget.allows(f"{sizes.own} own objects: {peer}"):
            return
        recorder = self._recorders[peer]
        try:
            progress.step("", peer, f"{sizes.own} own objects")
            with self._setup(peer) as setup:
                setup.stop()
                setup.grow(sizes.own)
                if "done" in parts:
                    rounds = min(many.ROUNDS, self._rounds)
                    for number in self._budget.rounds(rounds, f"{peer}, all done"):
                        progress.step(number, peer, "a start with all done")
                        many.done(setup, number)
                        self._save()
                if "backlog" in parts and self._budget.allows(f"{peer}: all objects at once"):
                    progress.step("", peer, "a start, 410, and a new version that changes all")
                    many.backlog(setup)
        except FAILURES as error:
            for part in parts - {"others"}:
                recorder.fail(part, 1, reason_of(error))
            progress.note(f"{peer}, {sizes.own} own objects: {reason_of(error)}")

    @contextlib.contextmanager
    def _setup(self, peer: str) -> Iterator[Setup]:
        setup = Setup(self._peers[peer].program, self._recorders[peer])
        with contextlib.closing(setup):
            setup.open()
            yield setup

    def _pods(self, progress: Progress) -> None:
        peers = [peer for peer in self._peers if self._workloads(peer)]
        if not peers:
            return
        progress.step("", "all", f"{self._sizes.pods} Pods are stored")
        failures = dict.fromkeys(((peer, each) for peer in peers for each in pods.WORKLOADS), 0)
        with pods.plane_with_pods(self._sizes.pods) as plane:
            for number in self._budget.rounds(self._rounds, "Pods"):
                for peer in quiet.rotated(peers, number):
                    for workload in self._workloads(peer):
                        if failures[peer, workload] >= CHANCES:
                            continue
                        progress.step(number, peer, f"{self._sizes.pods} Pods: {workload}")
                        recorder, program = self._recorders[peer], self._peers[peer].program
                        try:
                            pods.sync(plane, program, workload, number, recorder)
                        except FAILURES as error:
                            failures[peer, workload] += 1
                            recorder.fail("memory", number, reason_of(error), group=workload)
                    self._save()

    def _quiet(self, progress: Progress) -> None:
        setups = {
            name: (Setup(peer.program, self._recorders[name]), self._of(name, quiet.PARTS))
            for name, peer in self._peers.items()
            if self._of(name, quiet.PARTS)
        }
        quiet.Quiet(setups, self._rounds, self._sizes, progress, self._budget).run()
        self._save()


def _start_once(plane: EnvtestControlPlane, program: Program, workloads: Iterable[str]) -> None:
    commands: dict[tuple[str, ...], str] = {}
    for workload in workloads:
        commands.setdefault(tuple(program.others.get(workload, program.command)), workload)
    for workload in commands.values():
        with health_ports() as (address,), contextlib.suppress(*FAILURES):
            setting = Setting(workload=workload, health_address=address)
            with started(program, plane, setting) as process:
                if program.tells_readiness:
                    wait_ready(process, address, WARM_WITHIN)
                else:
                    time.sleep(LONG_ENOUGH)


assert {*busy.PARTS, *many.PARTS, *quiet.PARTS} == set(PARTS)
