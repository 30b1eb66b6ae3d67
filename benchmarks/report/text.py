"""Results as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import PARTS
from benchmarks.report.aims import aims_of, asides_of
from benchmarks.report.tables import left_out, number, rounds_in_words, table_of
from benchmarks.summary import requests
from benchmarks.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.results import Results

__all__ = ["shown"]


def shown(results: Results) -> str:
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    for key in (key for key in PARTS if key in results.samples):
        found, run = table_of(results, key), results.run_of(key)
        yield f"\n{PARTS[key].title}: medians of {rounds_in_words(results.rounds_of(key))} (smallest–largest)"
        yield table(found.header, found.rows)
        yield from (f"  {note}" for note in found.notes)
        for peer in run.versions:
            counts = requests(results, key, peer)
            if counts:
                listed = ", ".join(f"{number(count)} {name}" for name, count in counts.items() if count)
                yield f"  {peer}: {listed or 'no request'}"
    for run in results.runs.values():
        yield from left_out(run)
    aims = aims_of(results)
    if aims:
        asides = [[text, found, ""] for text, found in asides_of(results)]
        yield "\nAims"
        yield table(["", "", ""], [*([aim.text, aim.found, aim.verdict] for aim in aims), *asides])
