from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.workloads.options import Options, parse_options
from examples.workloads.program import run
from tests.support.kubeconfig import Credentials


def test_flags_have_defaults_and_durations_are_read():
    options = parse_options([])
    assert (options.kubeconfig, options.context) == (None, None)
    assert (options.namespace, options.timeout) == ("workloads-example", 120.0)
    assert parse_options(["--timeout", "1m30s"]).timeout == 90.0


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--namespace", "Shouting"),
        ("--namespace", "a/b"),
        ("--namespace", ".."),
        ("--namespace", "n" * 64),
        ("--namespace", ""),
        ("--image", " "),
        ("--timeout", "soon"),
        ("--timeout", "0s"),
        ("--timeout", "-1s"),
    ],
)
def test_parse_options_names_wrong_flag(flag: str, value: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        parse_options([f"{flag}={value}"])
    assert ended.value.code == 2
    assert f"error: argument {flag}: " in capsys.readouterr().err


async def told(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> str:
    options = Options(kubeconfig=str(kubeconfig), context=None, namespace="n", image="i", timeout=1.0)
    assert await run(options) == 1
    return capsys.readouterr().err


async def test_workloads_reports_broken_kubeconfig_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    broken = tmp_path / "broken"
    broken.write_text("clusters: {")
    assert re.fullmatch(
        rf"error: {broken}: not valid YAML in line \d+, column \d+: .+\n", await told(broken, capsys)
    )


async def test_workloads_reports_unreachable_server_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    nowhere = Credentials(server="http://127.0.0.1:1", token="x").write(tmp_path / "nowhere")
    assert re.fullmatch(r"error: cannot connect to 127\.0\.0\.1:1: .+\n", await told(nowhere, capsys))
