from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from devcluster.cli import main


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["up", "--port", "99999"], "--port: '99999' is not a port"),
        (["up", "--pod-ready-delay", "soon"], "--pod-ready-delay: 'soon' is not a duration"),
        (["up", "--bind-address", "here"], "--bind-address: 'here' is not an IP address"),
        (["up", "--history", "-1"], "--history: '-1' is not a whole number"),
        (["up", "--enable-admission-plugins=A"], '--enable-admission-plugins: plugin "A" is unknown here'),
        (["up", "--feature-gates=A=true"], "'A' is unknown here; it has ShardedListAndWatch"),
        (["up", "--feature-gates=ShardedListAndWatch=on"], "ShardedListAndWatch is true or false, not 'on'"),
        (["up", "--prot", "1"], "devcluster: up: unknown flag '--prot'; did you mean --port?\n"),
        (["pu"], "devcluster: unknown command 'pu'; the commands are up, completion, and --help\n"),
        (["up", "now"], "devcluster: up: unexpected argument 'now'\n"),
        (["--versoin"], "devcluster: unknown flag '--versoin'; did you mean --version?\n"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_version_flag_shows_the_version(capsys: pytest.CaptureFixture[str]):
    assert shown(capsys, "--version") == f"devcluster {version('operator-manager')}\n"


def test_each_line_of_the_help_has_the_default(capsys: pytest.CaptureFixture[str]):
    _, *flags = re.split(r"\n  --", shown(capsys, "up", "--help"))
    assert [flag for flag in flags if "default" not in flag] == []


@pytest.mark.parametrize("flag", ["--data", "--kubeconfig"])
def test_a_file_that_cannot_be_written_is_told_in_one_line(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["up", flag, str(tmp_path / "missing" / "file")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"devcluster: {flag}: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_prints_its_kubeconfig_and_stops_cleanly_on_a_signal(number: signal.Signals, tmp_path: Path):
    command = [sys.executable, "-m", "devcluster", "up", "--kubeconfig", str(tmp_path / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert lines[0].startswith("devcluster: serving Kubernetes at https://127.0.0.1:")
    assert lines[1] == f"export KUBECONFIG={tmp_path / 'config'}\n"
    assert lines[2] == "devcluster: ready; Ctrl-C stops it\n"
