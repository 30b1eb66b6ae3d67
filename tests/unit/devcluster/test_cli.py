from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

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
            "'--enable-admission-plugins': plugin \"A\" is unknown here",
        ),
        (["up", "--feature-gates=A=true"], "'A' is unknown here; it has ShardedListAndWatch"),
        (["up", "--feature-gates=ShardedListAndWatch=on"], "ShardedListAndWatch is true or false, not 'on'"),
        (["up", "--prot", "1"], "No such option '--prot'. Did you mean '--port'?"),
        (["pu"], "No such command 'pu'."),
        (["up", "now"], "Got unexpected extra argument (now)"),
        (["--versoin"], "No such option '--versoin'. Did you mean '--version'?"),
        ([], "COMMAND"),
    ],
)
def test_main_error_names_a_wrong_flag(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]):
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


def test_up_help_shows_the_default_of_each_flag_with_a_value(capsys: pytest.CaptureFixture[str]):
    _, *flags = re.split(r"\n  --", shown(capsys, "up", "--help"))
    assert [flag.split()[0] for flag in flags if "default" not in flag] == ["no-controllers"]


def test_up_passes_flag_values_to_devcluster():
    given = params_of(commands, "up", ["--no-controllers", "--feature-gates="])
    assert given == {
        "address": "127.0.0.1",
        "port": 0,
        "kubeconfig": None,
        "data": None,
        "controllers": False,
        "pod_ready_delay": 1.0,
        "pod_stop_delay": 0.0,
        "history": None,
        "min_request_timeout": 1800.0,
        "admission_plugins": (),
        "feature_gates": (),
    }
    given = params_of(
        commands, "up", ["--feature-gates=ShardedListAndWatch=true", "--min-request-timeout=1m30s"]
    )
    assert (given["controllers"], given["feature_gates"]) == (True, ("ShardedListAndWatch",))
    assert given["min_request_timeout"] == 90.0


@pytest.mark.parametrize("flag", ["--data", "--kubeconfig"])
def test_command_reports_unwritable_file_in_one_line(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(["up", flag, str(tmp_path / "missing" / "file")])
    assert ended.value.code == 1
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
