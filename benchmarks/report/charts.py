"""The plots of the page as SVG: bars with their spread, and spans from p50 to p99."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Generic, TypeVar
from xml.sax.saxutils import escape, quoteattr

from benchmarks.parts import PARTS
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


FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
# The colours differ for colour-blind readers too; the second of each pair is for a dark page.
SERIES = (
    ("#0969da", "#58a6ff"),
    ("#9a6700", "#d9a53f"),
    ("#bc4c00", "#f0883e"),
    ("#8250df", "#bc8cff"),
    ("#1a7f37", "#56d364"),
    ("#6e7781", "#9aa4af"),
    ("#bf3989", "#f778ba"),
    ("#1b7c83", "#39c5cf"),
)
TEXT, FAINT, LINE = ("#1f2328", "#e6edf3"), ("#59636e", "#9198a1"), ("#d1d9e0", "#3d444d")


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


class Drawing:
    """An SVG of a given width, in pixels: x goes right and y down. Its colours follow the theme."""

    def __init__(self, width: int, title: str) -> None:
        self.width = width
        self._title = title
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> None:
        """Add a text. `kind`: "title", "faint" or ""; `anchor`: the end of the text that is at `x`."""
        self._add("text", escape(text), {"x": x, "y": y, "class": kind, "text-anchor": anchor})

    def bar(self, x: float, y: float, width: float, height: float, series: int) -> None:
        """Add a filled rectangle."""
        place = {"x": x, "y": y, "width": max(width, 1.0), "height": height, "rx": 2}
        self._add("rect", "", {**place, "class": _series(series)})

    def dot(self, x: float, y: float, radius: float, series: int) -> None:
        """Add a filled circle."""
        self._add("circle", "", {"cx": x, "cy": y, "r": radius, "class": _series(series)})

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Add a line. `kind`: "grid", "spread", or a series'."""
        self._add("line", "", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})

    def stroke(self, x1: float, x2: float, y: float, series: int) -> None:
        """Add a horizontal line in the colour of a series."""
        self.line(x1, y, x2, y, f"{_series(series)} stroke")

    def finish(self, height: float) -> str:
        """Return the SVG file."""
        size = f'width="{self.width}" height="{height:.0f}" viewBox="0 0 {self.width} {height:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(self._title)}>'
        )
        return "\n".join([head, f"<style>{_style()}</style>", *self._parts, "</svg>", ""])

    def _add(self, tag: str, content: str, attributes: dict[str, str | float]) -> None:
        shown = " ".join(
            f"{name}={quoteattr(_plain(value))}" for name, value in attributes.items() if value != ""
        )
        self._parts.append(f"<{tag} {shown}>{content}</{tag}>" if content else f"<{tag} {shown}/>")


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _series(number: int) -> str:
    return f"s{number % len(SERIES)}"


def _style() -> str:
    return f"{_theme(0)}@media(prefers-color-scheme:dark){{{_theme(1)}}}"


def _theme(which: int) -> str:
    rules = [
        f"text{{font:12px {FONT};fill:{TEXT[which]}}}",
        f".title{{font-weight:600}}.faint{{fill:{FAINT[which]}}}",
        f".grid{{stroke:{LINE[which]}}}.spread{{stroke:{TEXT[which]};stroke-width:1.5}}",
        *(f".s{number}{{fill:{colours[which]}}}" for number, colours in enumerate(SERIES)),
        *(
            f".s{number}.stroke{{stroke:{colours[which]};stroke-width:4}}"
            for number, colours in enumerate(SERIES)
        ),
    ]
    return "".join(rules)
