"""Command line of the benchmark suite: invalid arguments, and `--render`, which measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import cli
from tests.support.benchmark_results import made_results, made_run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only=hot"], "'--only': 'hot' is no part; there are cold, latency"),
        (["--peers=operator-manager,gopher"], "'--peers': 'gopher' is no peer; there are operator-manager"),
        (["--program=mine"], "'--program': 'mine' is not NAME=COMMAND"),
        (["--program=mine=/bin/mine run"], "with {kubeconfig} in the command"),
        (["--python=no-such-python"], "no-such-python -c"),
        (["--program=bare=/bin/mine {kubeconfig}"], "--program: bare is the name of a peer"),
        (["--only=cold"], "KUBEBUILDER_ASSETS is not set"),
    ],
)
def test_benchmark_cli_error_names_the_invalid_argument_or_missing_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], said: str
):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a new folder for the benchmark page, with a document that quotes a figure of the page."""
    monkeypatch.setattr(cli, "PAGE", tmp_path)
    monkeypatch.setattr(cli, "QUOTING", (tmp_path / "quoting.md",))
    quoting = "It takes <!-- benchmarks:own-idle-memory -->42 MB<!-- /benchmarks -->.\n"
    (tmp_path / "quoting.md").write_text(quoting)
    return tmp_path


def rendered(*flags: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--render", *flags])
    return int(ended.value.code or 0)


def test_benchmark_render_writes_the_files_that_its_check_flag_reported_as_stale(
    capsys: pytest.CaptureFixture[str], folder: Path
):
    run = made_run("operator-manager", "kopf")
    results = made_results(run, "memory", operator_manager={"idle.mb": [50.5]}, kopf={"idle.mb": [70, 80.5]})
    results.write(folder / "results.json")
    assert rendered("--check") == 1
    said = capsys.readouterr().err
    for name in ("README.md", "quoting.md"):
        assert f"{folder / name} is not current" in said
    assert not (folder / "README.md").exists()
    assert rendered() == 0
    page = (folder / "README.md").read_text()
    assert "| operator-manager | 50.5 |" in page
    assert 'x-axis ["operator-manager","kopf"]\n    y-axis 0 --> 75.2\n    bar [50.5, 75.2]' in page
    quoting = "It takes <!-- benchmarks:own-idle-memory -->50.5 MB<!-- /benchmarks -->.\n"
    assert (folder / "quoting.md").read_text() == quoting
    assert rendered("--check") == 0
