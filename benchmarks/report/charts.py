"""The plots of the page: bars with their spread, and spans from p50 to p99."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Generic, TypeVar

from benchmarks.parts import PARTS
from benchmarks.report.svg import Drawing
from benchmarks.report.tables import group_label, number
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Results
    from benchmarks.summary import Summary

__all__ = ["BARS", "Bar", "Panel", "Span", "bars", "charts_of", "spans"]

WIDTH, LABELS, VALUES = 760, 200, 150
ROW, BAR, HEAD, GAP = 22, 14, 24, 14
# By chart, which is named as its part: the group and the figure of each panel.
BARS: dict[str, tuple[tuple[str, str], ...]] = {
    "cold": (("", "rate"), ("", "cpu_ms"), ("", "server_cpu_ms")),
    "memory": (("idle", "mb"), ("objects", "mb"), ("pods-metadata", "mb"), ("pods", "mb")),
    "change": (("few", "cpu_ms"), ("many", "cpu_ms")),
    "takeover": (("sigterm", "seconds"), ("sigkill", "seconds")),
    "startup": (("", "ready_s"), ("", "first_s")),
}
LATENCY = "latency"
MORE = frozenset({"rate"})


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: label, number of the colour, figure."""

    label: str
    series: int
    summary: Summary


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A span of a chart: label, number of the colour, low and high end."""

    label: str
    series: int
    low: float
    high: float


Row = TypeVar("Row", Bar, Span)


@dataclasses.dataclass(frozen=True, slots=True)
class Panel(Generic[Row]):
    """Rows of a chart that are compared with each other."""

    title: str
    rows: Sequence[Row]


def charts_of(results: Results, part: str) -> str | None:
    """Return the chart of a part; None if it has no chart or no figures."""
    if part == LATENCY:
        panels = _latency(results)
        return spans("Latency, ms", panels) if panels else None
    if part not in BARS:
        return None
    found = _bar_panels(results, part)
    return bars(PARTS[part].title, found) if found else None


def bars(title: str, panels: Sequence[Panel[Bar]]) -> str:
    """Draw panels of bars; each has its own scale, which starts at zero."""
    drawing, y = Drawing(WIDTH, title), 0.0
    for panel in panels:
        drawing.text(0, y + 16, panel.title, kind="title")
        y += HEAD
        scale = (WIDTH - LABELS - VALUES) / (max(bar.summary.high for bar in panel.rows) or 1.0)
        for bar in panel.rows:
            middle = y + ROW / 2
            drawing.text(LABELS - 8, middle + 4, bar.label, anchor="end")
            drawing.bar(LABELS, middle - BAR / 2, bar.summary.median * scale, BAR, bar.series)
            low, high = LABELS + bar.summary.low * scale, LABELS + bar.summary.high * scale
            if high - low > 1:
                drawing.line(low, middle, high, middle, "spread")
                for end in (low, high):
                    drawing.line(end, middle - 4, end, middle + 4, "spread")
            drawing.text(max(high, LABELS) + 8, middle + 4, number(bar.summary.median))
            y += ROW
        y += GAP
    return drawing.finish(y)


def spans(title: str, panels: Sequence[Panel[Span]]) -> str:
    """Draw panels of spans on one logarithmic scale, with a dot at each end."""
    values = [value for panel in panels for row in panel.rows for value in (row.low, row.high)]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    width = WIDTH - LABELS - VALUES

    def place(value: float) -> float:
        return LABELS + (math.log10(value) - first) / max(1, last - first) * width

    height = sum(HEAD + ROW * len(panel.rows) + GAP for panel in panels)
    drawing, y = Drawing(WIDTH, title), 0.0
    for power in range(first, last + 1):
        drawing.line(place(10.0**power), HEAD - 4, place(10.0**power), height - GAP, "grid")
        drawing.text(
            place(10.0**power), height + 6, f"{number(10.0**power)} ms", kind="faint", anchor="middle"
        )
    for panel in panels:
        drawing.text(0, y + 16, panel.title, kind="title")
        y += HEAD
        for row in panel.rows:
            middle = y + ROW / 2
            drawing.text(LABELS - 8, middle + 4, row.label, anchor="end")
            drawing.stroke(place(row.low), place(row.high), middle, row.series)
            drawing.dot(place(row.low), middle, 5, row.series)
            drawing.dot(place(row.high), middle, 5, row.series)
            drawing.text(
                place(row.high) + 12, middle + 4, f"{number(row.low)} – {number(row.high)}", kind="faint"
            )
            y += ROW
        y += GAP
    return drawing.finish(height + 14)


def _bar_panels(results: Results, key: str) -> list[Panel[Bar]]:
    part, run, panels = PARTS[key], results.run_of(key), []
    for group_key, figure_key in BARS[key]:
        group = next(each for each in part.groups if each.key == group_key)
        figure = next(each for each in part.figures if each.key == figure_key)
        rows = []
        for series, peer in enumerate(run.versions):
            summary = summarize(results, key, peer, group.of(figure))
            if summary:
                rows.append(Bar(peer, series, summary))
        if rows:
            label = group_label(group, run)
            better = "more is better" if figure.key in MORE else "less is better"
            title = f"{label}: {figure.heading}" if label else figure.heading
            panels.append(Panel(f"{title} ({better})", rows))
    return panels


def _latency(results: Results) -> list[Panel[Span]]:
    part, run, panels = PARTS[LATENCY], results.run_of(LATENCY), []
    for group in part.groups:
        rows = []
        for series, peer in enumerate(run.versions):
            low, high = (
                summarize(results, LATENCY, peer, f"{group.key}.{name}") for name in ("p50_ms", "p99_ms")
            )
            if low and high:
                rows.append(Span(peer, series, max(low.median, 0.1), max(high.median, 0.1)))
        if rows:
            panels.append(Panel(f"{group_label(group, run)}: p50 – p99 (left is better)", rows))
    return panels
