"""The charts of the benchmark page, in Mermaid's notation, which GitHub and the documentation site draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from benchmarks.parts import PARTS
from benchmarks.report.tables import group_label, number
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.results import Results

__all__ = ["charts_of"]

BARS: dict[str, tuple[tuple[str, str], ...]] = {
    "cold": (("", "rate"), ("", "cpu_ms"), ("", "server_cpu_ms")),
    "latency": (("at_50", "p50_ms"), ("at_50", "p99_ms")),
    "memory": (("idle", "mb"), ("objects", "mb"), ("pods-metadata", "mb"), ("pods", "mb")),
    "change": (("few", "cpu_ms"), ("many", "cpu_ms")),
    "takeover": (("sigterm", "seconds"), ("sigkill", "seconds")),
    "startup": (("", "ready_s"), ("", "first_s")),
}
"""For each part, the group and the figure of each chart."""

MORE = frozenset({"rate"})
"""The figures whose larger values are better."""


def charts_of(results: Results, key: str) -> Iterator[str]:
    """Yield the charts of a part as Markdown; a chart shows the median of each measured program."""
    part, run = PARTS[key], results.run_of(key)
    for group_key, figure_key in BARS.get(key, ()):
        group = next(each for each in part.groups if each.key == group_key)
        figure = next(each for each in part.figures if each.key == figure_key)
        found = {peer: summarize(results, key, peer, group.of(figure)) for peer in run.versions}
        bars = {peer: number(each.median).replace(",", "") for peer, each in found.items() if each}
        if len(bars) > 1:
            label = ": ".join(filter(None, (group_label(group, run), figure.heading)))
            title = f"{label} ({'more' if figure.key in MORE else 'less'} is better)"
            yield "```mermaid\nxychart-beta horizontal"
            yield f"    title {orjson.dumps(title).decode()}"
            yield f"    x-axis {orjson.dumps(list(bars)).decode()}"
            yield f"    y-axis 0 --> {max(map(float, bars.values())):g}"
            yield f"    bar [{', '.join(bars.values())}]\n```\n"
