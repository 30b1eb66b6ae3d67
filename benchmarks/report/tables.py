"""The table of one part of the benchmarks, for the benchmark page or a terminal."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.parts import LONG, PARTS
from benchmarks.summary import failure, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.parts import Group, Part
    from benchmarks.results import Results, Run
    from benchmarks.summary import Summary

__all__ = [
    "DASH",
    "NOTHING",
    "Table",
    "group_label",
    "left_out",
    "number",
    "rounds_in_words",
    "spread",
    "table_of",
    "why_empty",
]

# The signs between the ends of a range, and in place of a missing figure.
DASH = "–"
NOTHING = DASH
FAILED = "failed"
LATENCY = "latency"
# A program falls behind if its final backlog exceeds the objects created in so many seconds.
SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """The cells of a table; the first `labels` columns contain labels, the others contain figures."""

    header: list[str]
    rows: list[list[str]]
    labels: int
    notes: list[str]
    """Footnotes: the reasons for missing cells, and the peers that fall behind."""


def table_of(results: Results, key: str) -> Table:
    part, run = PARTS[key], results.run_of(key)
    grouped = len(part.groups) > 1
    figures = [
        figure
        for figure in part.figures
        if any(group.of(figure) in sample.figures for sample in results.samples[key] for group in part.groups)
    ]
    rows = []
    notes = []
    for group in part.groups:
        for peer in run.versions:
            lacks = run.lacks.get(peer, {})
            if key in lacks or group.key in lacks:
                continue
            if grouped and not _is_measured(results, part, group):
                continue
            found = {figure.key: summarize(results, key, peer, group.of(figure)) for figure in figures}
            why = why_empty(results, part, group, peer)
            if why:
                where = f", {group_label(group, run)}" if group.label else ""
                notes.append(f"{peer}{where}: {why}")
            empty = FAILED if failure(results, key, peer, group.key) else NOTHING
            cells = [spread(each) if each else empty for each in found.values()]
            rows.append([*([group_label(group, run)] if grouped else []), peer, *cells])
    if key == LATENCY:
        notes += [f"{peer}, {group.label}: {said}" for group, peer, said in falling(results)]
    labels = 2 if grouped else 1
    header = [""] * labels + [figure.heading for figure in figures]
    return Table(header, rows, labels, list(dict.fromkeys(notes)))


def left_out(run: Run) -> Iterator[str]:
    yield from (f"{peer} is left out: {reason}" for peer, reason in run.left_out.items())
    partly: dict[str, list[str]] = {}
    for peer, lacks in run.lacks.items():
        for reason in dict.fromkeys(lacks.values()):
            partly.setdefault(reason, []).append(peer)
    for reason, peers in partly.items():
        if len(peers) < len(run.versions) - 1:  # then only our program has figures
            yield f"not measured in every part: {', '.join(peers)} ({reason})"
    yield from run.cut


def _is_measured(results: Results, part: Part, group: Group) -> bool:
    keys = {group.of(figure) for figure in part.figures}
    return any(
        {group.key, ""} & set(sample.failed) or not keys.isdisjoint(sample.figures)
        for sample in results.samples[part.key]
    )


def why_empty(results: Results, part: Part, group: Group, peer: str) -> str | None:
    reason = failure(results, part.key, peer, group.key)
    return f"failed: {reason}" if reason else None


def group_label(group: Group, run: Run) -> str:
    return group.label.format(**run.sizes)


def spread(summary: Summary) -> str:
    """Return the median as text, with minimum and maximum if these differ from it in the shown digits."""
    median, low, high = number(summary.median), number(summary.low), number(summary.high)
    return median if low == high else f"{median} ({low}{DASH}{high})"


def rounds_in_words(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


def number(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def behind(results: Results, peer: str, group: Group) -> bool | None:
    summary = summarize(results, LATENCY, peer, f"{group.key}.behind")
    return None if summary is None else summary.median > SECONDS * rate_of(group)


def falling(results: Results) -> Iterator[tuple[Group, str, str]]:
    run = results.run_of(LATENCY)
    for group in PARTS[LATENCY].groups:
        for peer in run.versions:
            if behind(results, peer, group):
                waiting = summarize(results, LATENCY, peer, f"{group.key}.behind")
                assert waiting is not None
                # Older result files have one duration for all rates.
                seconds = run.sizes["seconds"]
                if rate_of(group) in LONG:
                    seconds = run.sizes.get("long_seconds", seconds)
                sent = round(rate_of(group) * seconds)
                yield group, peer, f"falls behind: {waiting.median:.0f} of {sent} waited at the end"


def rate_of(group: Group) -> int:
    return int(group.key.removeprefix("at_"))
