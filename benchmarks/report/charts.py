"""The charts of the page as SVG: bars with the range of the rounds, and lines from p50 to p99."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from benchmarks.parts import PARTS
from benchmarks.report.tables import group_label, number
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.results import Results

__all__ = ["BARS", "charts_of"]

WIDTH, LABELS, VALUES = 760, 200, 150
ROW, BAR, HEAD, GAP = 22, 14, 24, 14
# For each chart, named like its part: the group and the figure of each panel.
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
# Colour-blind readers can tell these colours apart; the second of each pair is for a dark page.
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
class Row:
    """A bar to `middle` with its range, or a line from `low` to `high`, in the colour of the peer."""

    peer: str
    series: int
    low: float
    middle: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """Rows of a chart that have the same scale."""

    title: str
    rows: Sequence[Row]


def charts_of(results: Results, part: str) -> str | None:
    if part == LATENCY:
        panels = _latency(results)
        return _spans("Latency, ms", panels) if panels else None
    panels = _bar_panels(results, part) if part in BARS else []
    return _bars(PARTS[part].title, panels) if panels else None


def _bar_panels(results: Results, key: str) -> list[Panel]:
    part, run, panels = PARTS[key], results.run_of(key), []
    for group_key, figure_key in BARS[key]:
        group = next(each for each in part.groups if each.key == group_key)
        figure = next(each for each in part.figures if each.key == figure_key)
        rows = [
            Row(peer, series, found.low, found.median, found.high)
            for series, peer in enumerate(run.versions)
            if (found := summarize(results, key, peer, group.of(figure)))
        ]
        label = group_label(group, run)
        better = "more is better" if figure.key in MORE else "less is better"
        panels.append(
            Panel(f"{label}: {figure.heading} ({better})" if label else f"{figure.heading} ({better})", rows)
        )
    return [panel for panel in panels if panel.rows]


def _latency(results: Results) -> list[Panel]:
    part, run, panels = PARTS[LATENCY], results.run_of(LATENCY), []
    for group in part.groups:
        rows = []
        for series, peer in enumerate(run.versions):
            half, most = (summarize(results, LATENCY, peer, f"{group.key}.{p}_ms") for p in ("p50", "p99"))
            if half and most:
                low, high = max(half.median, 0.1), max(most.median, 0.1)
                rows.append(Row(peer, series, low, low, high))
        panels.append(Panel(f"{group_label(group, run)}: p50 – p99 (left is better)", rows))
    return [panel for panel in panels if panel.rows]


def _bars(title: str, panels: Sequence[Panel]) -> str:
    def row(panel: Panel, each: Row, y: float) -> Iterable[str]:
        scale = (WIDTH - LABELS - VALUES) / (max(row.high for row in panel.rows) or 1.0)
        yield _text(LABELS - 8, y + 4, each.peer, anchor="end")
        width = max(each.middle * scale, 1.0)
        yield _element(
            "rect", x=LABELS, y=y - BAR / 2, width=width, height=BAR, rx=2, kind=_series(each.series)
        )
        low, high = LABELS + each.low * scale, LABELS + each.high * scale
        if high - low > 1:
            yield _line(low, y, high, y, "spread")
            yield from (_line(end, y - 4, end, y + 4, "spread") for end in (low, high))
        yield _text(max(high, LABELS) + 8, y + 4, number(each.middle))

    parts, height = _drawn(panels, row)
    return _svg(title, height, parts)


def _spans(title: str, panels: Sequence[Panel]) -> str:
    values = [value for panel in panels for row in panel.rows for value in (row.low, row.high)]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def place(value: float) -> float:
        return LABELS + (math.log10(value) - first) / max(1, last - first) * (WIDTH - LABELS - VALUES)

    def row(_: Panel, each: Row, y: float) -> Iterable[str]:
        yield _text(LABELS - 8, y + 4, each.peer, anchor="end")
        low, high = place(each.low), place(each.high)
        yield _line(low, y, high, y, f"{_series(each.series)} stroke")
        yield from (_element("circle", cx=x, cy=y, r=5, kind=_series(each.series)) for x in (low, high))
        yield _text(high + 12, y + 4, f"{number(each.low)} – {number(each.high)}", kind="faint")

    parts, height = _drawn(panels, row)
    grid = list[str]()
    for value in (10.0**power for power in range(first, last + 1)):
        grid.append(_line(place(value), HEAD - 4, place(value), height - GAP, "grid"))
        grid.append(_text(place(value), height + 6, f"{number(value)} ms", kind="faint", anchor="middle"))
    return _svg(title, height + 14, [*grid, *parts])


def _drawn(
    panels: Sequence[Panel], draw: Callable[[Panel, Row, float], Iterable[str]]
) -> tuple[list[str], float]:
    parts, y = list[str](), 0.0
    for panel in panels:
        parts.append(_text(0, y + 16, panel.title, kind="title"))
        y += HEAD
        for row in panel.rows:
            parts += draw(panel, row, y + ROW / 2)
            y += ROW
        y += GAP
    return parts, y


def _text(x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> str:
    return _element("text", escape(text), x=x, y=y, kind=kind, **{"text-anchor": anchor})


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return _element("line", x1=x1, y1=y1, x2=x2, y2=y2, kind=kind)


def _element(tag: str, content: str = "", **attributes: str | float) -> str:
    shown = "".join(
        f" {'class' if name == 'kind' else name}={quoteattr(_plain(value))}"
        for name, value in attributes.items()
        if value != ""
    )
    return f"<{tag}{shown}>{content}</{tag}>" if content else f"<{tag}{shown}/>"


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)}>'
    style = f"{_theme(0)}@media(prefers-color-scheme:dark){{{_theme(1)}}}"
    return "\n".join([head, f"<style>{style}</style>", *parts, "</svg>", ""])


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _series(number: int) -> str:
    return f"s{number % len(SERIES)}"


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
