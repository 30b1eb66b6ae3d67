"""The suite's command line: wrong arguments get one clear line, and nothing is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import cli
from tests.support.benchmark_results import made_results, made_run

if TYPE_CHECKING:
    from collections.abc import Sequence


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line of what is said to wrong arguments."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments, "what it does")
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only=hot"], "--only: 'hot' is no part; there are cold, latency"),
        (["--only=cold,hot"], "'hot' is no part"),
        (["--only="], "'' is no part"),
        (["--peers=operator-manager,gopher"], "--peers: 'gopher' is no peer; there are operator-manager"),
        (["--rounds=0"], "--rounds: '0' is not a number of at least 1"),
        (["--rounds=many"], "--rounds: 'many' is not a number of at least 1"),
        (["--program=mine"], "--program: 'mine' is not NAME=COMMAND"),
        (["--program=mine=/bin/mine run"], "with {kubeconfig} in the command"),
        (["--program=bare=/bin/mine {kubeconfig}"], "--program: bare is the name of a peer"),
    ],
)
def test_a_wrong_argument_is_named(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str):
    assert said in refused(capsys, *arguments)


def test_help_lists_the_parts_and_the_peers():
    command = [sys.executable, "-m", "benchmarks", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "cold, latency" in done.stdout
    assert "operator-manager" in done.stdout


def test_without_a_control_plane_it_says_where_one_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    said = refused(capsys, "--only=cold")
    assert "KUBEBUILDER_ASSETS is not set" in said
    assert "setup-envtest" in said


def test_rendering_needs_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(cli, "PAGE", tmp_path)
    assert "results.json" in refused(capsys, "--render")
    (tmp_path / "results.json").write_text("{}")
    assert "has no results of this suite" in refused(capsys, "--render")


def test_rendering_makes_the_page_of_the_figures_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(cli, "PAGE", tmp_path)
    results = made_results(made_run("operator-manager"), "cold", operator_manager={"rate": [200.0]})
    results.write(tmp_path / "results.json")
    assert cli.main(["--render"], "what it does") == 0
    assert "| operator-manager | 200 |" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "cold.svg").exists()
