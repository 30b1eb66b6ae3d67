"""scripts/house: sizes, and the path of a change through a real manager."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT


def house(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "house"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "not a git repository" in done.stderr or "unknown revision" in done.stderr:
        pytest.skip("no git, or not a checkout with its history")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.whole
@pytest.mark.timeout(180)
def test_house_script_counts_files_and_functions_of_the_write_path():
    printed = house("--files", "--check")  # which fails if an aim is missed
    path = printed.partition("write of the status: ")[2]
    for passed in ("cache/", "client/", "controller/", "operator/"):
        assert f"\n  manager/{passed}" in path
    assert "\n  manager_kinds/methods.py: DeploymentMethods." in path
    assert re.search(
        r"one calls the next: \d files \(aim 10\): .*, manager/process/manager.py$", printed, re.MULTILINE
    )
    assert re.search(r"to the socket: [2-5] hops \(aim 5\): Context, ", printed)


def test_house_script_names_each_missed_aim(tmp_path: Path):
    script = tmp_path / "scripts" / "house"
    script.parent.mkdir()
    script.write_text((ROOT / "scripts" / "house").read_text())
    module = tmp_path / "manager" / "large.py"
    module.parent.mkdir()
    module.write_text("pass\n" * 30_001)
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    command = [sys.executable, str(script), "--static", "--since=HEAD"]
    done = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("missed: manager/: 30,001 lines (aim 30,000)\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
