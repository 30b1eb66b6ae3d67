"""The page under docs/benchmarks/, and the quotes of other documents, follow from results alone."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.parts import PARTS
from benchmarks.report.charts import BARS, charts_of
from benchmarks.report.page import page, write_page
from benchmarks.report.quotes import with_quotes
from benchmarks.report.tables import DASH
from benchmarks.report.text import shown
from benchmarks.results import Results
from tests.support.benchmark_results import made_results, made_run, with_parts

PEERS = ("operator-manager", "controller-runtime")
RUN = made_run(*PEERS, left_out={"kube-rs": "cargo is not on the PATH"})
SVG = "{http://www.w3.org/2000/svg}"


def whole() -> Results:
    """Return results with every figure of every part."""
    parts = []
    for part in PARTS.values():
        figures = [group.of(figure) for group in part.groups for figure in part.figures]
        ours, theirs = (dict.fromkeys(figures, each) for each in ([3.0, 1.0, 2.0], [2.0, 4.0, 3.0]))
        parts.append(made_results(RUN, part.key, operator_manager=ours, controller_runtime=theirs))
    return with_parts(*parts)


def test_page_contains_every_part_versions_machine_and_command():
    text = page(whole())
    for part in PARTS.values():
        assert f"\n## {part.title}\n" in text
    for said in ("A CPU", "24 GB", "kube-apiserver 1.34.1", "etcd 3.6.4", "2026-11-21 20:20", "make bench"):
        assert said in text
    assert "| controller-runtime | what controller-runtime is | controller-runtime 1.0 |" in text
    assert "kube-rs is left out: cargo is not on the PATH" in text


def test_page_states_verdict_of_every_aim():
    text = page(whole())
    assert (
        "| cold convergence: at most 1.25 times Go's client CPU per object |"
        " 2 against 3, 0.67 times | reached |" in text
    )
    assert "| cold convergence: no fewer objects/s | 2 against 3, 0.67 times | **not reached** |" in text


def test_page_names_make_bench_when_results_are_empty(tmp_path: Path):
    write_page(Results(), tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "Nothing has been measured yet." in text
    assert "make bench" in text


def test_profiles_are_linked_to_where_there_are_some_and_an_aim_is_missed():
    assert "](profiles.md)" in page(whole(), has_profiles=True)
    assert "](profiles.md)" not in page(whole())


def test_page_marks_part_of_another_run():
    run = made_run(*PEERS, date="2026-11-22 08:00")
    text = page(whole().merged_with(made_results(run, "ten", operator_manager={"watches": [1.0]})))
    assert text.count("From another run") == 1
    assert "From another run" in (ten := text.partition("## Ten controllers")[2])
    assert "08:00 UTC, 1 round, on A CPU.*" in ten


def test_quoted_comparison_names_the_run_of_each_part():
    marked = "<!-- benchmarks:comparison --><!-- /benchmarks -->"
    run = made_run(*PEERS, date="2026-11-22 08:00")
    later = made_results(run, "memory", operator_manager={"idle.mb": [50.0]})
    alone = with_quotes(marked, whole()).splitlines()[-2]
    assert alone.startswith("2026-11-21 20:20 UTC, ")
    both = with_quotes(marked, whole().merged_with(later)).splitlines()[-2]
    assert both.startswith("Cold convergence, Start: 2026-11-21 20:20 UTC, ")
    assert " Memory: 2026-11-22 08:00 UTC, " in both


def test_shown_lists_requests_of_each_program():
    results = whole()
    results.sample("cold", "operator-manager", 1).requests["POST deployments 201"] = 2000
    assert "operator-manager: 2,000 POST deployments 201" in shown(results)


def test_page_lists_peers_that_miss_a_part_once_with_the_reason():
    lacks = {"bare": {"memory": "it has no watches", "ten": "it has no watches"}}
    run = made_run(*PEERS, "bare", lacks=lacks)
    text = page(made_results(run, "ten", operator_manager={"watches": [1.0]}))
    assert text.count("- not in every part: bare (it has no watches)") == 1


def test_quote_of_worse_figures_lists_them_with_the_ratio_and_no_others():
    figures = {
        "operator_manager": {"rate": [100.0], "cpu_ms": [3.0], "server_cpu_ms": [1.0], "events": [9.0]},
        "controller_runtime": {"rate": [150.0], "cpu_ms": [2.0], "server_cpu_ms": [2.0], "events": [0.0]},
        "kube_rs": {"rate": [50.0], "conflicts": [0.0]},
    }
    figures["operator_manager"]["conflicts"] = [1.0]
    results = made_results(made_run(*PEERS, "kube-rs"), "cold", **figures)
    text = with_quotes("<!-- benchmarks:worse --><!-- /benchmarks -->", results)
    assert [line for line in text.splitlines() if line.startswith("| Cold")] == [
        f"| Cold convergence: objects/s | 100 | 150 (1.50 times) | 50 | {DASH} |",
        f"| Cold convergence: CPU ms per object | 3 | 2 (1.50 times) | {DASH} | {DASH} |",
        f"| Cold convergence: 409s | 1 | {DASH} | 0 | {DASH} |",
    ]


def test_quote_of_a_few_figures_has_a_dash_for_each_that_was_not_measured():
    text = with_quotes("<!-- benchmarks:in-short --><!-- /benchmarks -->", whole())
    assert f"| memory when idle, MB | 2 | 3 | {DASH} | {DASH} |" in text


def test_rendering_writes_the_page_and_its_plots_and_removes_those_of_parts_that_are_gone(tmp_path: Path):
    write_page(whole(), tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"README.md", "latency.svg", *(f"{part}.svg" for part in BARS)}
    text = (tmp_path / "README.md").read_text()
    assert all(f"]({name})" in text for name in written - {"README.md"})
    write_page(made_results(RUN, "ten", operator_manager={"watches": [1.0]}), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md"}


@pytest.mark.parametrize("part", ["latency", *BARS])
def test_chart_stays_within_its_borders_and_supports_dark_mode(part: str):
    chart = charts_of(whole(), part)
    assert chart is not None
    drawing = ElementTree.fromstring(chart)
    assert "prefers-color-scheme:dark" in chart
    width, height = float(drawing.attrib["width"]), float(drawing.attrib["height"])
    for each in drawing.iter():
        right = float(each.get("x", 0)) + float(each.get("width", 0) if each is not drawing else 0)
        assert 0 <= right <= width
        assert 0 <= float(each.get("y", 0)) + 4 <= height or each is drawing
    labels = {each.text for each in drawing.iter(f"{SVG}text")}
    assert {"operator-manager", "controller-runtime"} <= labels


def test_chart_bar_length_is_proportional_to_its_figure():
    results = made_results(
        RUN, "startup", operator_manager={"ready_s": [1.0]}, controller_runtime={"ready_s": [0.25]}
    )
    chart = charts_of(results, "startup")
    assert chart is not None
    ours, theirs = (float(each.attrib["width"]) for each in ElementTree.fromstring(chart).iter(f"{SVG}rect"))
    assert ours == pytest.approx(4 * theirs, rel=0.01)


def test_charts_of_returns_none_for_part_without_figures():
    assert charts_of(Results.begin(RUN, ["cold", "latency"]), "cold") is None
    assert charts_of(Results.begin(RUN, ["cold", "latency"]), "latency") is None


def test_names_in_a_plot_are_text_not_markup():
    results = made_results(made_run("a<b>&c"), "startup", **{"a<b>&c": {"ready_s": [1.0]}})
    chart = charts_of(results, "startup")
    assert chart is not None
    assert "a<b>&c" in {each.text for each in ElementTree.fromstring(chart).iter(f"{SVG}text")}


def test_shown_prints_every_part_and_its_verdicts():
    text = shown(whole())
    assert all(part.title in text for part in PARTS.values())
    assert "not reached" in text
