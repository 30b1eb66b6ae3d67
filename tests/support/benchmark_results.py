"""Invented results in the format of the benchmark suite, for tests of its pages."""

from __future__ import annotations

from typing import Any

from benchmarks.parts import Sizes
from benchmarks.results import Results, Run

MACHINE = {
    "processor": "A CPU",
    "cores": "2",
    "memory": "24 GB",
    "system": "Linux 6",
    "kube-apiserver": "1.34.1",
    "etcd": "3.6.4",
}


def made_run(*peers: str, date: str = "2026-11-21 20:20", **fields: Any) -> Run:
    """Return a benchmark run of these operators (`peers`); `fields` replace default values of the run."""
    defaults: dict[str, Any] = {
        "rounds": 3,
        "machine": MACHINE,
        "versions": {peer: f"{peer} 1.0" for peer in peers},
        "about": {peer: f"what {peer} is" for peer in peers},
        "left_out": {},
        "lacks": {peer: {} for peer in peers},
        "sizes": Sizes().as_json(),
    }
    return Run(date=date, **{**defaults, **fields})


def made_results(run: Run, part: str, **figures: dict[str, list[float]]) -> Results:
    """Return results of one part of the benchmark.

    `figures` maps each peer (with _ for -) to its figures; a figure has one value for each round.
    """
    results = Results.begin(run, [part])
    for peer, found in figures.items():
        for figure, values in found.items():
            for number, value in enumerate(values, 1):
                results.sample(part, peer.replace("_", "-"), number).figures[figure] = value
    return results


def with_parts(*each: Results) -> Results:
    whole = each[0]
    for other in each[1:]:
        whole = whole.merged_with(other)
    return whole
