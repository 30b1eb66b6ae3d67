from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.workloads.options import Options, parse_options
from examples.workloads.program import run


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


async def error_of_run(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> str:
    options = Options(kubeconfig=str(kubeconfig), context=None, namespace="n", image="i", timeout=1.0)
    assert await run(options) == 1
    return capsys.readouterr().err


async def test_workloads_reports_broken_kubeconfig_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    broken = tmp_path / "broken"
    broken.write_text("clusters: {")
    assert re.fullmatch(
        rf"error: {broken}: not valid YAML in line \d+, column \d+: .+\n", await error_of_run(broken, capsys)
    )
