"""Figures that other documents quote between two markers; `python -m benchmarks --render` updates them.

A quote is between the comments `<!-- benchmarks:NAME -->` and `<!-- /benchmarks -->`. `QUOTES` defines the
names.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from benchmarks.parts import PARTS
from benchmarks.report.aims import OURS
from benchmarks.report.tables import DASH, group_label, number
from benchmarks.summary import median

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from benchmarks.parts import Figure
    from benchmarks.results import Results

__all__ = ["QUOTES", "with_quotes"]

MARKED = re.compile(
    r"(?P<begin><!-- benchmarks:(?P<name>[a-z-]+) -->)(?P<text>.*?)(?P<end><!-- /benchmarks -->)", re.DOTALL
)
THEIRS = "controller-runtime"
UNKNOWN = "not measured yet"
# Columns of the comparison: part, figure and heading.
COMPARED = (
    ("cold", "rate", "objects a second"),
    ("cold", "conflicts", "writes refused"),
    ("cold", "cpu_ms", "CPU ms for each"),
    ("cold", "server_cpu_ms", "API server's CPU ms for each"),
    ("memory", "idle.mb", "MB idle"),
    ("memory", "objects.mb", "MB after it"),
    ("memory", "pods-metadata.mb", "MB with 50,000 Pods' metadata"),
    ("startup", "ready_s", "s to ready"),
)
# Rows of the short table: part, figure and label.
IN_SHORT = (
    ("cold", "cpu_ms", "CPU of a new object, ms"),
    ("change", "many.cpu_ms", "CPU of one change, ms"),
    ("latency", "at_50.p50_ms", "median latency of a new object, ms"),
    ("memory", "idle.mb", "memory when idle, MB"),
    ("memory", "pods-metadata.mb", "memory with the metadata of 50,000 Pods, MB"),
    ("startup", "ready_s", "start until ready, s"),
)
OTHERS = (THEIRS, "kube-rs", "kopf")
VARIANTS = (f"{THEIRS}-ryw", f"{THEIRS}-onepass", "bare")
"""Further columns: controller-runtime with other settings, and the program that only sends the writes."""
# Figures for which higher is better, and figures without a better direction.
MORE, NEUTRAL = frozenset({"rate", "reached", "idle"}), frozenset({"events", "changes"})


def with_quotes(text: str, results: Results) -> str:
    """Return a document with the current quotes between its markers.

    Raises ValueError for a marker with an unknown name, or without an end.
    """

    def quoted(match: re.Match[str]) -> str:
        quote = QUOTES.get(match["name"])
        if quote is None:
            raise ValueError(f"nothing to quote is called {match['name']!r}; there are {', '.join(QUOTES)}")
        return f"{match['begin']}{quote(results)}{match['end']}"

    if text.count("<!-- benchmarks:") != len(MARKED.findall(text)):
        raise ValueError("a marker <!-- benchmarks:NAME --> has no <!-- /benchmarks -->")
    return MARKED.sub(quoted, text)


def _comparison(results: Results) -> str:
    if "cold" not in results.samples:
        return f"\n{UNKNOWN.capitalize()}.\n"
    rows = []
    for peer in results.run_of("cold").versions:
        cells = [_figure(results, peer, part, figure) for part, figure, _ in COMPARED]
        if any(cells):
            rows.append([peer, *(cell or DASH for cell in cells)])
    return f"{_table([heading for _, _, heading in COMPARED], rows)}\n{_sources(results)}\n"


def _in_short(results: Results) -> str:
    rows = [
        [label, *(_figure(results, peer, part, figure) or DASH for peer in (OURS, *OTHERS))]
        for part, figure, label in IN_SHORT
    ]
    return _table([OURS, *OTHERS], rows)


def _worse(results: Results) -> str:
    rows = list(_worse_rows(results))
    return _table([OURS, *OTHERS, *VARIANTS], rows) if rows else f"\n{UNKNOWN.capitalize()}.\n"


def _worse_rows(results: Results) -> Iterator[list[str]]:
    for part in (part for part in PARTS.values() if part.key in results.samples):
        for group in part.groups:
            label = f", {group_label(group, results.run_of(part.key))}" if group.label else ""
            for figure in (figure for figure in part.figures if figure.key not in NEUTRAL):
                key = group.of(figure)
                ours = median(results, part.key, OURS, key)
                theirs = [median(results, part.key, peer, key) for peer in (*OTHERS, *VARIANTS)]
                if ours is not None and any(
                    each is not None and _times(figure, ours, each) > 1 for each in theirs
                ):
                    cells = [number(ours), *(_cell(figure, ours, each) for each in theirs)]
                    yield [f"{part.title}{label}: {figure.heading}", *cells]


def _times(figure: Figure, ours: float, theirs: float) -> float:
    """Return the ratio of our figure to theirs, or its inverse if more is better; above 1, ours is worse."""
    worse, better = (theirs, ours) if figure.key in MORE else (ours, theirs)
    return round(worse / better, 2) if better else math.inf if worse else 1.0


def _cell(figure: Figure, ours: float, theirs: float | None) -> str:
    if theirs is None:
        return DASH
    times = _times(figure, ours, theirs)
    return f"{number(theirs)} ({number(times)} times)" if 1 < times < math.inf else number(theirs)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [["", *headings], ["---", *["--:"] * len(headings)], *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _sources(results: Results) -> str:
    parts: dict[str, list[str]] = {}
    for part in dict.fromkeys(part for part, _, _ in COMPARED if part in results.of_run):
        parts.setdefault(results.of_run[part], []).append(PARTS[part].title)
    said = []
    for date, titles in parts.items():
        machine = results.runs[date].machine
        of = f"{', '.join(titles)}: " if len(parts) > 1 else ""
        said.append(f"{of}{date} UTC, {machine['processor']}, {machine['cores']} cores.")
    return " ".join(said)


def _own(part: str, figure: str, unit: str) -> Callable[[Results], str]:
    def quote(results: Results) -> str:
        ours = _figure(results, OURS, part, figure)
        return f"{ours} {unit}" if ours else UNKNOWN

    return quote


def _figure(results: Results, peer: str, part: str, figure: str) -> str:
    value = median(results, part, peer, figure)
    return "" if value is None else number(value)


QUOTES: Mapping[str, Callable[[Results], str]] = {
    "comparison": _comparison,
    "in-short": _in_short,
    "worse": _worse,
    "own-idle-memory": _own("memory", "idle.mb", "MB"),
    "own-objects-memory": _own("memory", "objects.mb", "MB"),
    "own-pods-memory": _own("memory", "pods-metadata.mb", "MB"),
    "own-whole-pods-memory": _own("memory", "pods.mb", "MB"),
    "own-cold-cpu": _own("cold", "cpu_ms", "ms"),
    "own-change-cpu": _own("change", "many.cpu_ms", "ms"),
    "own-steady-requests": _own("steady", "requests", "requests a minute"),
}
