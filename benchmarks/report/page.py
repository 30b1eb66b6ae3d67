"""Rendering of the benchmark page under docs/benchmarks/; its text depends only on the results."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.parts import PARTS
from benchmarks.program import CONCURRENCY
from benchmarks.report.aims import aims_of, all_aims, asides_of
from benchmarks.report.charts import charts_of
from benchmarks.report.tables import left_out, rounds_in_words, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.results import Results, Run

__all__ = ["NAME", "PROFILES", "RAW", "page"]

NAME, RAW = "README.md", "results.json"
# Handwritten explanations of aims that are not reached.
PROFILES = "profiles.md"
PROSE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("prose.toml").read_text())


def page(results: Results, *, has_profiles: bool = False) -> str:
    return "\n".join(_lines(results, has_profiles=has_profiles)).rstrip() + "\n"


def _lines(results: Results, *, has_profiles: bool) -> Iterator[str]:
    yield "<!-- made by `.venv/bin/python -m benchmarks`; do not edit -->"
    yield PROSE["introduction"]
    if results.runs:
        # The run from which most parts of the page come.
        of = list(results.of_run.values())
        main = max(results.runs.values(), key=lambda run: (of.count(run.date), run.date))
        yield from _aims(results, has_profiles=has_profiles)
        yield from _setting(main)
        for key in (key for key in PARTS if key in results.samples):
            yield from _part(results, key, main)
    else:
        yield "Nothing has been measured yet.\n"
    yield PROSE["fairness"].format(concurrency=CONCURRENCY)
    yield PROSE["repeat"].format(raw=RAW)


def _aims(results: Results, *, has_profiles: bool) -> Iterator[str]:
    aims = all_aims(results)
    if not aims_of(results):
        return
    yield "## Aims\n"
    yield PROSE["aims"].format(concurrency=CONCURRENCY)
    verdicts = [[aim.text, aim.found, aim.verdict if aim.reached else f"**{aim.verdict}**"] for aim in aims]
    verdicts += [[text, found, ""] for text, found in asides_of(results)]
    yield from _markdown(["aim", "found", ""], verdicts, labels=2)
    yield ""
    if has_profiles and any(aim.reached is False for aim in aims):
        yield f"[Profiles]({PROFILES}) explain why some aims are not reached.\n"


def _setting(run: Run) -> Iterator[str]:
    yield "## Programs and machine\n"
    machine = run.machine
    yield (
        f"{run.date} UTC, {rounds_in_words(run.rounds)} in {run.minutes:g} minutes,"
        f" on {machine['processor']}, {machine['cores']} cores, {machine['memory']}, {machine['system']};"
        f" kube-apiserver {machine['kube-apiserver']}, etcd {machine['etcd']}.\n"
    )
    if pinned := machine.get("pinned"):
        yield f"{pinned}\n"
    rows = [[peer, run.about[peer], version] for peer, version in run.versions.items()]
    yield from _markdown(["", "", "version"], rows, labels=3)
    yield ""
    if lines := list(left_out(run)):
        yield from (f"- {line}" for line in lines)
        yield ""


def _part(results: Results, key: str, main: Run) -> Iterator[str]:
    part, run, table = PARTS[key], results.run_of(key), table_of(results, key)
    yield f"## {part.title}\n"
    # Older result files have one duration for all rates of new objects.
    yield PROSE["about"][key].format(**{"long_seconds": run.sizes.get("seconds"), **run.sizes})
    rounds = results.rounds_of(key)
    if run is not main:
        other = f"{run.date} UTC, {rounds_in_words(rounds)}, on {run.machine['processor']}"
        yield f"*From another run than most of this page: {other}.*\n"
    elif rounds != run.rounds:
        yield f"*{rounds_in_words(rounds)}.*\n"
    yield from _markdown(table.header, table.rows, labels=table.labels)
    yield ""
    for note in table.notes:
        yield f"- {note}"
    if table.notes:
        yield ""
    yield from charts_of(results, key)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]], *, labels: int) -> Iterator[str]:
    yield _row(header)
    yield _row(["---"] * labels + ["--:"] * (len(header) - labels))
    for row in rows:
        yield _row(cell.replace("|", "\\|") for cell in row)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
