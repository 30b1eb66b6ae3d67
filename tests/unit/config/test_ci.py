"""`.ci/run`: interpreters, lint and tests side by side, failures; and the workflows that a fork runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

FOREVER = "echo begun; while :; do sleep 0.1; done"
IMAGE, OLDEST = "3.13", "3.11"
UNWANTED = ("MAKE", "KUBEBUILDER_", "PYTHON")


def ci(folder: Path, *, lint: str, test: str, quick: str = "true") -> subprocess.CompletedProcess[str]:
    """Run `.ci/run` in a checkout with these make targets and both supported Python versions."""
    checkout, programs = folder / "checkout", folder / "bin"
    for each in (checkout / ".ci", checkout / "scripts", programs):
        each.mkdir(parents=True)
    for name in (".ci/run", "scripts/find-python"):
        shutil.copy(ROOT / name, checkout / name)
    (checkout / "Dockerfile").write_text(f"ARG PYTHON_IMAGE=python:{IMAGE}.9-slim\n")
    (checkout / "pyproject.toml").write_text(f'requires-python = ">={OLDEST}"\n')
    targets = {"tools": "echo environment", "lint": lint, "test": test, "test-quick": quick}
    (checkout / "Makefile").write_text("".join(f"{name}:\n\t@{script}\n" for name, script in targets.items()))
    for version in (IMAGE, OLDEST):
        python = programs / f"python{version}"
        tells = f'if [ "$1" = --version ]; then echo Python {version}.9; else echo {version}; fi'
        python.write_text(f"#!/bin/sh\n{tells}\n")
        python.chmod(0o755)
    (programs / "python3").symlink_to(python)
    for name in (
        *("bash", "sh", "make", "awk", "cat", "dirname"),
        *("echo", "mktemp", "printf", "rm", "sed", "sleep"),
    ):
        (programs / name).symlink_to(shutil.which(name) or name)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    return subprocess.run(
        [checkout / ".ci/run"],
        env={**environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ci_runs_tests_on_the_python_of_the_image_and_on_the_oldest_supported_python(tmp_path: Path):
    on = 'echo "$@ runs on [$(notdir $(PYTHON))]"'
    done = ci(tmp_path, lint=on, test=on, quick=on)
    assert done.returncode == 0, done.stderr
    ran = re.findall(r"^(\S+) runs on \[python(.*)\]$", done.stdout, re.MULTILINE)
    assert sorted(ran) == [("lint", IMAGE), ("test", IMAGE), ("test-quick", OLDEST)]
    passed = f"make lint and make test on Python {IMAGE}.9, make test-quick on Python {OLDEST}.9"
    assert done.stdout.splitlines()[-1] == f".ci/run: passed: {passed}"


def test_ci_prints_the_output_and_the_name_of_a_failing_target_last(tmp_path: Path):
    done = ci(tmp_path, test=FOREVER, lint="sleep 0.2; echo lint found a fault; false")
    assert done.returncode == 1
    assert "lint found a fault" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make lint"


WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")
}
JOBS = WORKFLOWS["ci"]["jobs"]


def test_workflow_runs_ci_on_every_supported_version_of_python():
    versions = JOBS["ci"]["strategy"]["matrix"]["python"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert {each.rpartition(" ")[2] for each in classifiers if ":: Python :: 3." in each} <= set(versions)
    assert JOBS["ci"]["steps"][-1] == {"run": ".ci/run", "env": {"PYTHON": "python${{ matrix.python }}"}}
    for which, expected in (("oldest", versions[:1]), ("image", versions)):
        command = [ROOT / "scripts/find-python", "--version", which]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() in expected


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_pins_actions_to_commits_and_has_read_only_permissions(name: str):
    jobs = WORKFLOWS[name]["jobs"].values()
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    allowed = [job["permissions"] for job in jobs if "permissions" in job]
    assert allowed == ([{"contents": "write"}] if name == "release" else [])
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    assert {each.partition("@")[0] for each in used} <= {"actions/checkout", "actions/setup-python"}
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}", each) for each in used)
