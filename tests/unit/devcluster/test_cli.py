from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devcluster.cli import commands, main
from tests.support.settings import params_of


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["up", "--port", "99999"], "'--port': 99999 is not in the range"),
        (["up", "--pod-ready-delay", "soon"], "'--pod-ready-delay': 'soon' is not a duration"),
        (["up", "--pod-stop-delay=-1s"], "'--pod-stop-delay': '-1s' is not a duration"),
        (["up", "--bind-address", "here"], "'--bind-address': 'here' is not an IP address"),
        (["up", "--history", "-1"], "'--history': -1 is not in the range"),
        (
            ["up", "--enable-admission-plugins=A"],
            "'--enable-admission-plugins': unknown admission plugin \"A\"",
        ),
        (["up", "--feature-gates=A=true"], "unknown feature gate 'A'; devcluster has ShardedListAndWatch"),
        (["up", "--feature-gates=ShardedListAndWatch=on"], "ShardedListAndWatch is true or false, not 'on'"),
        (["up", "--prot", "1"], "No such option '--prot'. Did you mean '--port'?"),
        (["pu"], "No such command 'pu'."),
        (["up", "now"], "Got unexpected extra argument (now)"),
        ([], "COMMAND"),
    ],
)
def test_devcluster_command_error_names_the_invalid_flag_or_command(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


def test_up_command_help_shows_the_default_of_each_flag_with_a_value(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        main(["up", "--help"])
    _, *flags = re.split(r"\n  --", capsys.readouterr().out)
    assert [flag.split()[0] for flag in flags if "default" not in flag] == ["no-controllers"]


@pytest.mark.parametrize(
    ("flags", "given"),
    [
        ([], {"controllers": True, "pod_ready_delay": 1.0, "history": None, "feature_gates": ()}),
        (["--no-controllers", "--feature-gates="], {"controllers": False, "feature_gates": ()}),
        (["--feature-gates=ShardedListAndWatch=true"], {"feature_gates": ("ShardedListAndWatch",)}),
        (["--min-request-timeout=1m30s"], {"min_request_timeout": 90.0}),
    ],
)
def test_up_command_parses_flags_into_the_parameters_of_devcluster(flags: list[str], given: dict[str, Any]):
    assert given.items() <= params_of(commands, "up", flags).items()


@pytest.mark.parametrize("flag", ["--data", "--kubeconfig"])
def test_up_command_reports_in_one_line_that_a_file_cannot_be_written(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(["up", flag, str(tmp_path / "missing" / "file")])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith(f"devcluster: {flag}: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_command_prints_its_kubeconfig_and_stops_cleanly_on_a_signal(
    number: signal.Signals, tmp_path: Path
):
    command = [sys.executable, "-m", "devcluster", "up", "--kubeconfig", str(tmp_path / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert lines[0].startswith("devcluster: serving Kubernetes at https://127.0.0.1:")
    assert lines[1] == f"export KUBECONFIG={tmp_path / 'config'}\n"
    assert lines[2] == "devcluster: ready; Ctrl-C stops it\n"
