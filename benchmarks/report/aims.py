"""The aims of this project, most of them against the better of controller-runtime's two settings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.parts import PARTS
from benchmarks.report.backlog import behind
from benchmarks.report.tables import number
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.results import Results

__all__ = ["OURS", "THEIRS", "Aim", "aims_of", "asides_of"]

OURS = "operator-manager"
# Its two settings; where one has no figure of its own, the other's counts.
THEIRS = ("controller-runtime", "controller-runtime-ryw")
# What a newcomer and a sceptic ask for next: as it comes, and with its cache told to hold less.
OUT_OF_THE_BOX, STRIPPED = "controller-runtime-1", "controller-runtime-stripped"
# The leanest operator there is, and what the requests alone cost in Python.
LEANEST, BARE = ("kube-rs",), ("bare",)
REACHED, NOT_REACHED = "reached", "not reached"
# What an interpreter could do at best, as far as anybody knew when these were set.
IDLE_MB, START_S = 40.0, 0.35
# What is at most so much worse cannot be told from the noise between two rounds.
NOISE = 1.05


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """One aim, decided by the medians of one run."""

    part: str
    text: str
    found: str
    reached: bool

    @property
    def verdict(self) -> str:
        """In a word."""
        return REACHED if self.reached else NOT_REACHED


def aims_of(results: Results) -> list[Aim]:
    """Those of which both sides have been measured."""
    return [
        *_at_least(results, "cold", "rate", 1.5, "cold convergence: at least 1.5 times its objects/s"),
        *_at_most(
            results, "cold", "cpu_ms", 1.0, "cold convergence: client CPU per object no more than its own"
        ),
        *_at_most(
            results,
            "cold",
            "cpu_ms",
            1.0,
            "cold convergence: client CPU per object no more than kube-rs's",
            LEANEST,
        ),
        *_at_most(
            results,
            "cold",
            "server_cpu_ms",
            1.0,
            "cold convergence: the API server's CPU per object no more than for the bare requests",
            BARE,
        ),
        *_none(results, "cold", "conflicts", "cold convergence: no write refused with a conflict"),
        *_latency(results),
        *_at_most(
            results, "memory", "pods-metadata.mb", 0.25, "50,000 Pods as metadata in a quarter of its memory"
        ),
        *_at_most(results, "memory", "idle.mb", 2.0, "idle memory no more than twice its own"),
        *_within(results, "memory", "idle.mb", IDLE_MB, "idle memory at most {} MB"),
        *_within(results, "startup", "ready_s", START_S, "ready within {} s"),
        *_within(results, "startup", "first_s", START_S, "the first status within {} s"),
        *_at_most(results, "takeover", "sigterm.seconds", NOISE, "takeover after SIGTERM no slower"),
        *_at_most(results, "takeover", "sigkill.seconds", NOISE, "takeover after kill -9 no slower"),
        *_change(results),
        *_independent(results),
        *_one_watch(results),
    ]


def asides_of(results: Results) -> list[tuple[str, str]]:
    """What is shown next to the aims and decides none of them: a text, and what was found."""
    asked = (
        ("cold", "rate", OUT_OF_THE_BOX, "cold convergence, objects/s, next to its out-of-the-box 1 worker"),
        ("cold", "cpu_ms", OUT_OF_THE_BOX, "cold convergence, client CPU per object, next to the same"),
        (
            "memory",
            "pods-metadata.mb",
            STRIPPED,
            "Pods as metadata, MB, next to its stripping of managedFields",
        ),
    )
    found = []
    for part, figure, peer, text in asked:
        ours, theirs = _median(results, part, OURS, figure), _median(results, part, peer, figure)
        if ours is not None and theirs:
            found.append((text, _compared(ours, theirs)))
    return found


def _latency(results: Results) -> Iterator[Aim]:
    for group in PARTS["latency"].groups:
        for key in ("p50_ms", "p99_ms"):
            figure = f"{group.key}.{key}"
            text = f"latency at {group.label}: {key.removesuffix('_ms')} no worse"
            yield from _at_most(results, "latency", figure, NOISE, text)

    for group in PARTS["latency"].groups:
        theirs = [behind(results, peer, group) for peer in THEIRS]
        ours = behind(results, OURS, group)
        # Only where both settings fall behind is there something to be ahead of.
        if ours is not None and True in theirs and False not in theirs:
            text = f"latency at {group.label}: stable where it falls behind"
            yield Aim("latency", text, "falls behind too" if ours else "keeps up", not ours)


def _at_least(results: Results, part: str, figure: str, factor: float, text: str) -> Iterator[Aim]:
    ours, theirs = _median(results, part, OURS, figure), _best(results, part, figure, max)
    if ours is not None and theirs:
        yield Aim(part, text, _compared(ours, theirs), ours >= factor * theirs)


def _at_most(
    results: Results, part: str, figure: str, factor: float, text: str, peers: Iterable[str] = THEIRS
) -> Iterator[Aim]:
    ours, theirs = _median(results, part, OURS, figure), _best(results, part, figure, min, peers)
    if ours is not None and theirs:
        yield Aim(part, text, _compared(ours, theirs), ours <= factor * theirs)


def _within(results: Results, part: str, figure: str, most: float, text: str) -> Iterator[Aim]:
    ours = _median(results, part, OURS, figure)
    if ours is not None:
        yield Aim(part, text.format(number(most)), number(ours), ours <= most)


def _change(results: Results) -> Iterator[Aim]:
    if "change" not in results.of_run:
        return
    for group in PARTS["change"].groups:
        label = group.label.format(**results.run_of("change").sizes)
        text = f"client CPU of one change {label} no more than its own"
        yield from _at_most(results, "change", f"{group.key}.cpu_ms", 1.0, text)


def _none(results: Results, part: str, figure: str, text: str) -> Iterator[Aim]:
    ours = summarize(results, part, OURS, figure)
    if ours is not None:
        yield Aim(part, text, f"at most {number(ours.high)} in a round", ours.high == 0)


def _independent(results: Results) -> Iterator[Aim]:
    """The cost of one change, whatever the number of objects."""
    few, many = (_median(results, "change", OURS, f"{group}.cpu_ms") for group in ("few", "many"))
    if few and many is not None:
        text = "the CPU of one change does not grow with the number of objects"
        found = f"{number(few)} ms among few, {number(many)} ms among many"
        # 100 times the objects; what only depends on them logarithmically is within this.
        yield Aim("change", text, found, many <= 1.5 * few)


def _one_watch(results: Results) -> Iterator[Aim]:
    ours = summarize(results, "ten", OURS, "watches")
    if ours is not None:
        yield Aim("ten", "ten controllers on one kind share one watch", number(ours.high), ours.high == 1)


def _compared(ours: float, theirs: float) -> str:
    times = f"{ours / theirs:.2f} times" if theirs else ""
    return f"{number(ours)} against {number(theirs)}, {times}"


def _median(results: Results, part: str, peer: str, figure: str) -> float | None:
    summary = summarize(results, part, peer, figure)
    return summary.median if summary else None


def _best(
    results: Results, part: str, figure: str, better: object, peers: Iterable[str] = THEIRS
) -> float | None:
    found: Iterable[float | None] = (_median(results, part, peer, figure) for peer in peers)
    values = [value for value in found if value is not None]
    assert callable(better)
    return better(values) if values else None
