"""The project's aims, most of them relative to the best Go program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.parts import PARTS, Sizes
from benchmarks.report.tables import DASH, number
from benchmarks.results import pace_of
from benchmarks.summary import median, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.results import Results

__all__ = ["GO", "OURS", "Aim", "aims_of", "all_aims", "asides_of"]

OURS = "operator-manager"
CPU_OF_ONE = "cold convergence, client CPU per object"
# The Go sample's two settings, and a variant of one pass; peers without a figure are ignored.
SINGLE = "controller-runtime-onepass"
GO = ("controller-runtime", "controller-runtime-ryw", SINGLE)
# The operator with the least memory, and the program that only sends the requests, in Python.
LEANEST, BARE = "kube-rs", "bare"
# The Go sample with its default of one worker, and with a smaller cache.
OUT_OF_THE_BOX, STRIPPED = "controller-runtime-1", "controller-runtime-stripped"
REACHED, NOT_REACHED, UNCERTAIN, NOT_MEASURED = "reached", "not reached", "uncertain", "not measured"
# Users notice a timer that is later than this.
LAG_MS = 50.0
# The usual difference between two rounds.
NOISE = 1.05
# Our memory relative to the metadata of all objects: a hundredth of the objects is cached with full content.
AND_OURS = 1.1


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """An aim, and whether the medians of a run reach it."""

    part: str
    text: str
    found: str
    reached: bool | None
    """Whether the aim is reached; None if a figure is missing, or the machine's speed changed too much."""

    @property
    def verdict(self) -> str:
        """Return the result in one or two words, for the benchmark page."""
        if self.reached is None:
            return UNCERTAIN if self.measured else NOT_MEASURED
        return REACHED if self.reached else NOT_REACHED

    @property
    def measured(self) -> bool:
        """Return whether all figures that the aim compares exist."""
        return self.found != DASH


def aims_of(results: Results) -> list[Aim]:
    return [aim for aim in all_aims(results) if aim.measured]


def all_aims(results: Results) -> list[Aim]:
    all_done = "start with {own:,} own objects, all done"
    cold, server = "cold convergence", "the API server's CPU per object"
    single = f"{cold}: at least 1.4 times the objects/s of {SINGLE}"
    return [
        *_compare(results, "cold", "rate", 1.0, f"{cold}: no fewer objects/s", best=max),
        *_compare(results, "cold", "rate", 1.4, single, (SINGLE,), best=max),
        *_compare(results, "cold", "cpu_ms", 1.25, f"{cold}: at most 1.25 times Go's client CPU per object"),
        *_compare(
            results,
            "cold",
            "server_cpu_ms",
            NOISE,
            f"{cold}: {server} at most {NOISE} times the cost of bare requests",
            (BARE,),
        ),
        *_none(results, "cold", "conflicts", f"{cold}: no write refused with a conflict"),
        *_compare(results, "latency", "at_50.p50_ms", 1.1, "latency at 50/s: p50 at most 1.1 times Go's"),
        *_compare(
            results, "memory", "pods-metadata.mb", 0.25, "50,000 Pods as metadata in a quarter of Go's memory"
        ),
        *_compare(results, "memory", "idle.mb", 2.0, "idle memory at most twice Go's"),
        *_compare(results, "startup", "ready_s", 1.5, "ready after at most 1.5 times as long"),
        *_others(results),
        *_none(results, "done", "writes", f"{all_done}: no write, only reads"),
        *_compare(results, "done", "cpu_s", 1.5, f"{all_done}: at most 1.5 times Go's CPU"),
        *_compare(results, "done", "mb", 0.5, f"{all_done}: at most half of Go's memory"),
        *_backlog(results),
        *_compare(results, "takeover", "sigterm.seconds", NOISE, "takeover after SIGTERM no slower"),
        *_compare(results, "takeover", "sigkill.seconds", NOISE, "takeover after kill -9 no slower"),
        *_change(results),
        *_independent(results),
        *_one_watch(results),
    ]


def asides_of(results: Results) -> list[tuple[str, str]]:
    asked = [
        ("cold", "rate", OUT_OF_THE_BOX, "cold convergence, objects/s"),
        ("cold", "cpu_ms", LEANEST, CPU_OF_ONE),
        ("cold", "cpu_ms", OUT_OF_THE_BOX, CPU_OF_ONE),
        ("memory", "pods-metadata.mb", STRIPPED, "Pods as metadata, MB"),
        ("others", "memcached.mb", GO[0], "beside Deployments of others, MB"),
    ]
    for part, figure, text in (
        ("cold", "cpu_ms", CPU_OF_ONE),
        ("change", "few.cpu_ms", "client CPU of one change among few"),
    ):
        others = results.run_of(part).versions if part in results.of_run else {}
        asked += [(part, figure, peer, text) for peer in others if peer.startswith(f"{OURS}-")]
    found = []
    for part, figure, peer, text in asked:
        ours, theirs = median(results, part, OURS, figure), median(results, part, peer, figure)
        if ours is not None and theirs:
            found.append((f"{text}, next to {peer}", _compared(ours, theirs)))
    return found


def _others(results: Results) -> Iterator[Aim]:
    text = f"{{others:,}} Deployments of others, {{among:,}} of ours: at most {AND_OURS} times metadata's MB"
    whole, metadata = (
        median(results, "others", OURS, f"{group}.mb") for group in ("memcached", "deployments-metadata")
    )
    if whole is None or not metadata:
        yield _open(results, "others", text)
    else:
        found = _compared(whole, metadata)
        yield Aim("others", _filled(results, "others", text), found, whole <= AND_OURS * metadata)


def _backlog(results: Results) -> Iterator[Aim]:
    for group in PARTS["backlog"].groups:
        text = f"{{own:,}} own objects, {group.label}: the loop's lag below {{}} ms (p99)"
        yield from _within(results, "backlog", f"{group.key}.lag_ms", LAG_MS, text)
        text = f"{{own:,}} own objects, {group.label}: no error of the API server"
        yield from _none(results, "backlog", f"{group.key}.errors", text)


def _compare(
    results: Results,
    part: str,
    figure: str,
    factor: float,
    text: str,
    peers: Iterable[str] = GO,
    *,
    best: Callable[[Iterable[float]], float] = min,
) -> Iterator[Aim]:
    """Yield the aim that our figure is at most `factor` times the best peer's; with max as `best`, at least.

    `reached` is None if a figure is missing, or if a correction for the machine's speed changes the result.
    """
    ours, rivals = median(results, part, OURS, figure), list(_rivals(results, part, figure, peers))
    theirs = best(value for value, _ in rivals) if rivals else None
    if ours is None or not theirs:
        yield _open(results, part, text)
        return
    fair = best(value * slower if best is min else value / slower for value, slower in rivals)
    verdicts = {ours == best((ours, factor * each)) for each in (theirs, fair)}
    found, text = _compared(ours, theirs), _filled(results, part, text)
    if len(verdicts) > 1:
        yield Aim(part, text, f"{found}; {ours / fair:.2f} at one pace", None)
    else:
        yield Aim(part, text, found, verdicts.pop())


def _rivals(results: Results, part: str, figure: str, peers: Iterable[str]) -> Iterator[tuple[float, float]]:
    for peer in peers:
        value = median(results, part, peer, figure)
        if value is not None:
            yield value, _slower(results, part, (OURS, figure), (peer, figure))


def _slower(results: Results, part: str, one: tuple[str, str], other: tuple[str, str]) -> float:
    first, second = (
        (pace := pace_of(figure)) and median(results, part, peer, pace) for peer, figure in (one, other)
    )
    return first / second if first and second else 1.0


def _within(results: Results, part: str, figure: str, most: float, text: str) -> Iterator[Aim]:
    ours, text = median(results, part, OURS, figure), text.replace("{}", number(most))
    if ours is None:
        yield _open(results, part, text)
    else:
        yield Aim(part, _filled(results, part, text), number(ours), ours <= most)


def _open(results: Results, part: str, text: str) -> Aim:
    return Aim(part, _filled(results, part, text), DASH, None)


def _filled(results: Results, part: str, text: str) -> str:
    sizes = Sizes().as_json() | (results.run_of(part).sizes if part in results.of_run else {})
    return text.format(**sizes)


def _change(results: Results) -> Iterator[Aim]:
    for group in PARTS["change"].groups:
        text = f"client CPU of one change {group.label} at most 1.3 times Go's"
        yield from _compare(results, "change", f"{group.key}.cpu_ms", 1.3, text)


def _none(results: Results, part: str, figure: str, text: str) -> Iterator[Aim]:
    ours = summarize(results, part, OURS, figure)
    if ours is None:
        yield _open(results, part, text)
    else:
        yield Aim(
            part, _filled(results, part, text), f"at most {number(ours.high)} in a round", ours.high == 0
        )


def _independent(results: Results) -> Iterator[Aim]:
    few, many = (median(results, "change", OURS, f"{group}.cpu_ms") for group in ("few", "many"))
    text = "the CPU of one change does not grow with the number of objects"
    if few and many is not None:
        found = f"{number(few)} ms among few, {number(many)} ms among many"
        # The number of objects grows by a factor of 100; a logarithmic dependency stays below factor 1.5.
        slower = _slower(results, "change", (OURS, "many.cpu_ms"), (OURS, "few.cpu_ms"))
        verdicts = {many <= 1.5 * each for each in (few, few * slower)}
        yield Aim("change", text, found, verdicts.pop() if len(verdicts) == 1 else None)
    else:
        yield _open(results, "change", text)


def _one_watch(results: Results) -> Iterator[Aim]:
    ours, text = summarize(results, "ten", OURS, "watches"), "ten controllers on one kind share one watch"
    if ours is None:
        yield _open(results, "ten", text)
    else:
        yield Aim("ten", text, number(ours.high), ours.high == 1)


def _compared(ours: float, theirs: float) -> str:
    times = f"{ours / theirs:.2f} times" if theirs else ""
    return f"{number(ours)} against {number(theirs)}, {times}"
