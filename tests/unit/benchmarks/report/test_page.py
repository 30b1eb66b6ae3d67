"""The page docs/benchmarks/README.md and the printed report, generated from results."""

from __future__ import annotations

from benchmarks.parts import PARTS
from benchmarks.report.page import page
from benchmarks.report.text import shown
from tests.support.benchmark_results import made_results, made_run, with_parts

RUN = made_run("operator-manager", "controller-runtime", left_out={"kube-rs": "cargo is not on the PATH"})


def test_benchmark_page_shows_all_sections_and_program_versions_and_missed_targets():
    parts = []
    for part in PARTS.values():
        figures = [group.of(figure) for group in part.groups for figure in part.figures]
        ours, theirs = (dict.fromkeys(figures, each) for each in ([3.0, 1.0, 2.0], [2.0, 4.0, 3.0]))
        parts.append(made_results(RUN, part.key, operator_manager=ours, controller_runtime=theirs))
    results = with_parts(*parts)
    text, printed = page(results), shown(results)
    for part in PARTS.values():
        assert f"\n## {part.title}\n" in text
        assert part.title in printed
    for said in ("A CPU", "24 GB", "kube-apiserver 1.34.1", "etcd 3.6.4", "2026-11-21 20:20", "make bench"):
        assert said in text
    assert "| controller-runtime | what controller-runtime is | controller-runtime 1.0 |" in text
    assert "kube-rs is left out: cargo is not on the PATH" in text
    assert "| cold convergence: no fewer objects/s | 2 against 3, 0.67 times | **not reached** |" in text
