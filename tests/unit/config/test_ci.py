"""Behaviour of `.ci/run`, and rules for the GitHub workflows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT


def test_ci_run_stops_the_test_target_and_names_lint_when_lint_fails(tmp_path: Path):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    lint, test = "sleep 0.2; echo lint found a fault; false", "while :; do sleep 0.1; done"
    (tmp_path / "Makefile").write_text(f"tools:\nlint:\n\t@{lint}\ntest:\n\t@{test}\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        [tmp_path / ".ci/run"],
        env={**environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "lint found a fault" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make lint"


WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")
}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_pins_actions_and_only_its_release_job_has_write_permission(name: str):
    jobs = WORKFLOWS[name]["jobs"].values()
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    allowed = [job["permissions"] for job in jobs if "permissions" in job]
    assert allowed == ([{"contents": "write"}] if name == "release" else [])
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    assert {each.partition("@")[0] for each in used} <= {"actions/checkout", "actions/setup-python"}
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}", each) for each in used)
