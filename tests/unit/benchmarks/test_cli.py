"""The suite's command line: wrong arguments get one clear line, and nothing is measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import cli
from tests.support.benchmark_results import made_results, made_run
from tests.support.fork_server import run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the last line of the output for wrong arguments."""
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
        (["--python=no-such-python"], "no-such-python -c"),
        (["--own-objects=0"], "--own-objects: '0' is not a number of at least 1"),
        (["--program=bare=/bin/mine {kubeconfig}"], "--program: bare is the name of a peer"),
    ],
)
def test_cli_names_wrong_argument(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str):
    assert said in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("server", "program", "said"),
    [
        ("0", "", "BENCH_SERVER_CPUS and BENCH_PROGRAM_CPUS have to be set both"),
        ("0", "one", "BENCH_PROGRAM_CPUS=one is no list of processors such as 0,2-5"),
        ("0-", "0", "BENCH_SERVER_CPUS=0- is no list of processors"),
        ("0", "9999", "BENCH_PROGRAM_CPUS=9999: there are processors 0"),
    ],
)
def test_processors_that_are_not_there_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, server: str, program: str, said: str
):
    monkeypatch.setenv("BENCH_SERVER_CPUS", server)
    monkeypatch.setenv("BENCH_PROGRAM_CPUS", program)
    assert said in refused(capsys, "--only=cold")


@pytest.mark.parametrize(("there", "left"), [({0, 1, 2, 3, 4}, {4}), ({0, 1, 2, 3}, {1, 2})])
def test_pin_moves_suite_off_the_processors_of_server_and_program(
    monkeypatch: pytest.MonkeyPatch, there: set[int], left: set[int]
):
    moved: list[set[int]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: there)
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: moved.append(cpus))
    monkeypatch.setenv("BENCH_SERVER_CPUS", "1-2")
    monkeypatch.setenv("BENCH_PROGRAM_CPUS", "0,3")
    assert cli.pin() == ("The control plane had processors 1-2 to itself, and the measured program 0,3.")
    assert moved == [left]


def test_help_lists_the_parts_and_the_peers():
    done = run(sys.executable, "-m", "benchmarks", "--help", environ=os.environ, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "cold, latency" in done.stdout
    assert "operator-manager" in done.stdout


def test_cli_names_setup_envtest_when_no_control_plane_is_configured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    said = refused(capsys, "--only=cold")
    assert "KUBEBUILDER_ASSETS is not set" in said
    assert "setup-envtest" in said


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Create a folder for the page, and a document that quotes it."""
    monkeypatch.setattr(cli, "PAGE", tmp_path)
    monkeypatch.setattr(cli, "QUOTING", (tmp_path / "quoting.md",))
    quoting = "It takes <!-- benchmarks:own-idle-memory -->42 MB<!-- /benchmarks -->.\n"
    (tmp_path / "quoting.md").write_text(quoting)
    return tmp_path


def kept(house: Path) -> None:
    results = made_results(made_run("operator-manager"), "memory", operator_manager={"idle.mb": [50.5]})
    results.write(house / "results.json")


def test_rendering_refuses_a_file_with_something_else(capsys: pytest.CaptureFixture[str], house: Path):
    (house / "results.json").write_text("{}")
    assert "has no results of this suite" in refused(capsys, "--render")


def test_rendering_makes_the_page_and_what_is_quoted_of_the_figures_that_are_kept(house: Path):
    kept(house)
    assert cli.main(["--render"], "what it does") == 0
    assert "| operator-manager | 50.5 |" in (house / "README.md").read_text()
    assert (house / "memory.svg").exists()
    quoting = "It takes <!-- benchmarks:own-idle-memory -->50.5 MB<!-- /benchmarks -->.\n"
    assert (house / "quoting.md").read_text() == quoting
    assert cli.main(["--render", "--check"], "what it does") == 0


def test_check_option_names_stale_files_and_writes_nothing(capsys: pytest.CaptureFixture[str], house: Path):
    kept(house)
    assert cli.main(["--render", "--check"], "what it does") == 1
    said = capsys.readouterr().err
    for name in ("README.md", "memory.svg", "quoting.md"):
        assert f"{house / name} is not current" in said
    assert not (house / "README.md").exists()
    assert "42 MB" in (house / "quoting.md").read_text()


def test_render_writes_not_measured_yet_into_documents_without_results(house: Path):
    assert cli.main(["--render"], "what it does") == 0
    assert "not measured yet" in (house / "quoting.md").read_text()


def test_render_names_document_with_unknown_marker(capsys: pytest.CaptureFixture[str], house: Path):
    (house / "quoting.md").write_text("<!-- benchmarks:weight --><!-- /benchmarks -->")
    said = refused(capsys, "--render")
    assert "quoting.md: nothing to quote is called 'weight'" in said


def test_render_refuses_marker_without_end(capsys: pytest.CaptureFixture[str], house: Path):
    (house / "quoting.md").write_text("<!-- benchmarks:start --> and no end")
    assert "has no <!-- /benchmarks -->" in refused(capsys, "--render")
