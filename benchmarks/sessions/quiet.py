"""A session in which all programs run, for steps that take time but little CPU.

Each program has its own control plane. In part `change`, only one program works at a time, because the others
would affect its figure; the other parts measure all programs together.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.sessions.process import FAILURES, reason_of, wait_quiet
from benchmarks.sessions.setup import Setup
from benchmarks.sessions.takeover import take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.parts import Sizes
    from benchmarks.progress import Budget, Progress

PARTS = ("takeover", "change", "steady", "ten")


class Quiet:
    """The session of all programs and rounds."""

    def __init__(
        self,
        setups: dict[str, tuple[Setup, set[str]]],
        rounds: int,
        sizes: Sizes,
        progress: Progress,
        budget: Budget,
    ) -> None:
        self._setups = setups
        self._rounds = rounds
        self._sizes = sizes
        self._progress = progress
        self._budget = budget

    def run(self) -> None:
        """Measure all parts of this session that at least one program supports."""
        with contextlib.ExitStack() as stack:
            for peer, (setup, _) in list(self._setups.items()):
                self._progress.step("", peer, "a control plane that stays")
                stack.callback(setup.close)
                self._try(peer, Setup.open)
            self._take_over()
            self._change("few", self._sizes.few)
            self._steady()
            self._ten()
            self._change("many", self._sizes.many)

    def _take_over(self) -> None:
        taking = self._in("takeover")
        if not taking or not self._budget.allows("takeover"):
            return
        for peer in taking:
            self._try(peer, Setup.stop)
        self._progress.step("", "all", "takeover, in all rounds")
        self._together(self._in("takeover"), lambda setup: take_over(setup, self._rounds), part="takeover")

    def _change(self, group: str, count: int) -> None:
        if not self._in("change") or not self._budget.allows(f"one change among {count}"):
            return
        for peer in self._in("change"):
            self._progress.step("", peer, f"{count} objects")
            self._try(peer, lambda setup: self._grown(setup, count))
        for number in self._budget.rounds(self._rounds, f"one change among {count}"):
            for peer in rotated(self._in("change"), number):
                self._progress.step(number, peer, f"one change among {count}")
                self._try(peer, lambda setup: setup.change(number, group, self._sizes.changes), part="change")  # noqa: B023

    def _steady(self) -> None:
        if not self._in("steady") or not self._budget.allows("steady state"):
            return
        for peer in self._in("steady"):
            self._progress.step("", peer, f"{self._sizes.objects} objects")
            self._try(peer, lambda setup: self._grown(setup, self._sizes.objects))
        for number in self._budget.rounds(self._rounds, "steady state"):
            self._progress.step(number, "all", "steady state")
            for peer in self._in("steady"):
                self._try(peer, Setup.begin_steady, part="steady")
            time.sleep(self._sizes.quiet_seconds)
            for peer in self._in("steady"):
                self._try(peer, lambda setup: setup.end_steady(number), part="steady")  # noqa: B023

    def _ten(self) -> None:
        if not self._in("ten") or not self._budget.allows("ten controllers on one kind"):
            return
        for peer in self._in("ten"):
            self._try(peer, Setup.stop)
        for number in self._budget.rounds(self._rounds, "ten controllers on one kind"):
            self._progress.step(number, "all", "ten controllers on one kind")
            self._together(self._in("ten"), lambda setup: setup.ten(number, self._sizes.settle), part="ten")  # noqa: B023

    def _grown(self, setup: Setup, count: int) -> None:
        if not setup.runs:
            setup.start()
        setup.grow(count)
        wait_quiet(setup.process, at_least=self._sizes.settle)

    def _in(self, part: str) -> list[str]:
        return [peer for peer, (_, parts) in self._setups.items() if part in parts]

    def _together(self, peers: list[str], do: Callable[[Setup], None], *, part: str) -> None:
        if peers:
            with ThreadPoolExecutor(len(peers)) as pool:
                list(pool.map(lambda peer: self._try(peer, do, part=part), peers))

    def _try(self, peer: str, do: Callable[[Setup], None], *, part: str | None = None) -> None:
        setup, parts = self._setups[peer]
        if part is not None and part not in parts:
            return
        try:
            do(setup)
        except FAILURES as error:
            for each in [part] if part else list(parts):
                setup.recorder.fail(each, 1, reason_of(error))
                parts.discard(each)


def rotated(peers: Iterable[str], number: int) -> list[str]:
    every = list(peers)
    return every[(number - 1) % len(every) :] + every[: (number - 1) % len(every)] if every else []
