"""The page docs/benchmarks/README.md and the quotes in other documents, generated from results."""

from __future__ import annotations

from benchmarks.parts import PARTS
from benchmarks.report.page import page
from benchmarks.report.quotes import with_quotes
from benchmarks.report.tables import DASH
from benchmarks.report.text import shown
from benchmarks.results import Results
from tests.support.benchmark_results import made_results, made_run, with_parts

PEERS = ("operator-manager", "controller-runtime")
RUN = made_run(*PEERS, left_out={"kube-rs": "cargo is not on the PATH"})


def whole() -> Results:
    """Return results with every figure of every part of the benchmark suite."""
    parts = []
    for part in PARTS.values():
        figures = [group.of(figure) for group in part.groups for figure in part.figures]
        ours, theirs = (dict.fromkeys(figures, each) for each in ([3.0, 1.0, 2.0], [2.0, 4.0, 3.0]))
        parts.append(made_results(RUN, part.key, operator_manager=ours, controller_runtime=theirs))
    return with_parts(*parts)


def test_benchmark_page_shows_all_sections_and_program_versions_and_missed_targets():
    text, printed = page(whole()), shown(whole())
    for part in PARTS.values():
        assert f"\n## {part.title}\n" in text
        assert part.title in printed
    for said in ("A CPU", "24 GB", "kube-apiserver 1.34.1", "etcd 3.6.4", "2026-11-21 20:20", "make bench"):
        assert said in text
    assert "| controller-runtime | what controller-runtime is | controller-runtime 1.0 |" in text
    assert "kube-rs is left out: cargo is not on the PATH" in text
    assert "| cold convergence: no fewer objects/s | 2 against 3, 0.67 times | **not reached** |" in text


def test_worse_figures_table_lists_only_figures_in_which_another_program_is_better():
    figures = {
        "operator_manager": {"rate": [100.0], "cpu_ms": [3.0], "server_cpu_ms": [1.0], "events": [9.0]},
        "controller_runtime": {"rate": [150.0], "cpu_ms": [2.0], "server_cpu_ms": [2.0], "events": [0.0]},
        "kube_rs": {"rate": [50.0], "conflicts": [0.0]},
        "bare": {"conflicts": [0.5]},
    }
    figures["operator_manager"]["conflicts"] = [1.0]
    results = made_results(made_run(*PEERS, "kube-rs", "bare"), "cold", **figures)
    text = with_quotes("<!-- benchmarks:worse --><!-- /benchmarks -->", results)
    assert [line for line in text.splitlines() if line.startswith("| Cold")] == [
        f"| Cold convergence: objects/s | 100 | 150 (1.50 times) | 50 | {DASH} | {DASH} | {DASH} | {DASH} |",
        f"| Cold convergence: CPU ms per object | 3 | 2 (1.50 times) |{f' {DASH} |' * 5}",
        f"| Cold convergence: 409s | 1 | {DASH} | 0 | {DASH} | {DASH} | {DASH} | 0.50 (2 times) |",
    ]
