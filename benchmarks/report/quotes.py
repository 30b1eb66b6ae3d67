"""Figures that other documents quote: between two markers, and written anew with the page.

A marker is a comment that a reader does not see: `<!-- benchmarks:NAME -->`, what is quoted, and
`<!-- /benchmarks -->`. The names are those of `QUOTES`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.parts import PARTS
from benchmarks.report.aims import OURS
from benchmarks.report.tables import number
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.results import Results

__all__ = ["QUOTES", "with_quotes"]

MARKED = re.compile(
    r"(?P<begin><!-- benchmarks:(?P<name>[a-z-]+) -->)(?P<text>.*?)(?P<end><!-- /benchmarks -->)", re.DOTALL
)
THEIRS = "controller-runtime"
UNKNOWN = "not measured yet"
# What a table of a comparison has, as part, figure and heading.
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


def with_quotes(text: str, results: Results) -> str:
    """A document with what its markers ask for.

    Raises:
        ValueError: a marker has a name that is not known, or no end.
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
    """Who was measured in a cold start, and what it costs to run each; on lines of its own."""
    if "cold" not in results.samples:
        return f"\n{UNKNOWN.capitalize()}.\n"
    rows = [["", *(heading for _, _, heading in COMPARED)], ["---", *["--:"] * len(COMPARED)]]
    for peer in results.run_of("cold").versions:
        cells = [_figure(results, peer, part, figure) for part, figure, _ in COMPARED]
        if any(cells):
            rows.append([peer, *(cell or "–" for cell in cells)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"\n{table}\n\n{_sources(results)}\n"


def _sources(results: Results) -> str:
    """The runs that the comparison is of, and what is of each where there are several."""
    parts: dict[str, list[str]] = {}
    for part in dict.fromkeys(part for part, _, _ in COMPARED if part in results.of_run):
        parts.setdefault(results.of_run[part], []).append(PARTS[part].title)
    said = []
    for date, titles in parts.items():
        machine = results.runs[date].machine
        of = f"{', '.join(titles)}: " if len(parts) > 1 else ""
        said.append(f"{of}{date} UTC, {machine['processor']}, {machine['cores']} cores.")
    return " ".join(said)


def _versus(part: str, figure: str, unit: str) -> Callable[[Results], str]:
    """Ours, and next to it controller-runtime's."""

    def quote(results: Results) -> str:
        ours, theirs = (_figure(results, peer, part, figure) for peer in (OURS, THEIRS))
        if not ours or not theirs:
            return UNKNOWN
        return f"{ours} {unit}, next to {theirs} {unit} of controller-runtime in the same run"

    return quote


def _own(part: str, figure: str, unit: str) -> Callable[[Results], str]:
    """Ours alone."""

    def quote(results: Results) -> str:
        ours = _figure(results, OURS, part, figure)
        return f"{ours} {unit}" if ours else UNKNOWN

    return quote


def _figure(results: Results, peer: str, part: str, figure: str) -> str:
    summary = summarize(results, part, peer, figure)
    return number(summary.median) if summary else ""


QUOTES: Mapping[str, Callable[[Results], str]] = {
    "comparison": _comparison,
    "cold-rate": _versus("cold", "rate", "objects a second"),
    "cold-cpu": _versus("cold", "cpu_ms", "ms"),
    "idle-memory": _versus("memory", "idle.mb", "MB"),
    "pods-memory": _versus("memory", "pods-metadata.mb", "MB"),
    "whole-pods-memory": _versus("memory", "pods.mb", "MB"),
    "start": _versus("startup", "ready_s", "s"),
    "takeover-sigkill": _versus("takeover", "sigkill.seconds", "s"),
    "own-idle-memory": _own("memory", "idle.mb", "MB"),
    "own-objects-memory": _own("memory", "objects.mb", "MB"),
    "own-pods-memory": _own("memory", "pods-metadata.mb", "MB"),
    "own-whole-pods-memory": _own("memory", "pods.mb", "MB"),
    "own-cold-cpu": _own("cold", "cpu_ms", "ms"),
    "own-change-cpu": _own("change", "many.cpu_ms", "ms"),
    "own-steady-requests": _own("steady", "requests", "requests a minute"),
}
