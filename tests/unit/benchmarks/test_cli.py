"""Command line of the benchmark suite: `--render`, which measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import cli
from tests.support.benchmark_results import made_results, made_run


def rendered(*flags: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--render", *flags])
    return int(ended.value.code or 0)


def test_benchmark_render_writes_the_files_that_its_check_flag_reported_as_stale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    page, document = tmp_path / "README.md", tmp_path / "quoting.md"
    monkeypatch.setattr(cli, "PAGE", tmp_path)
    monkeypatch.setattr(cli, "QUOTING", (document,))
    document.write_text("It takes <!-- benchmarks:own-idle-memory -->42 MB<!-- /benchmarks -->.\n")
    run = made_run("operator-manager", "kopf")
    results = made_results(run, "memory", operator_manager={"idle.mb": [50.5]}, kopf={"idle.mb": [70, 80.5]})
    results.write(tmp_path / "results.json")
    assert rendered("--check") == 1
    said = capsys.readouterr().err
    for path in (page, document):
        assert f"{path} is not current" in said
    assert not page.exists()
    assert rendered() == 0
    text = page.read_text()
    assert "| operator-manager | 50.5 |" in text
    assert 'x-axis ["operator-manager","kopf"]\n    y-axis 0 --> 75.2\n    bar [50.5, 75.2]' in text
    quoted = "It takes <!-- benchmarks:own-idle-memory -->50.5 MB<!-- /benchmarks -->.\n"
    assert document.read_text() == quoted
    assert rendered("--check") == 0
