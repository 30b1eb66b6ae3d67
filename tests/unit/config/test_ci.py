"""What `.ci/run` does with lint and tests side by side, one of which fails, and what a fork has of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from manager.version import KUBERNETES_VERSIONS
from tests.support import ROOT

ASSETS = 'echo "/assets/${1:-new}"'
ASKED = 'echo "on $$KUBEBUILDER_ASSETS and $$KUBEBUILDER_ASSETS_OLDEST"'
FOREVER = "echo begun; while :; do sleep 0.1; done"


def ci(
    folder: Path, *, lint: str = "true", test: str, beside: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run it in a checkout whose targets do this, with control planes `beside` it or none."""
    checkout = folder / "checkout"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", checkout / ".ci/run")
    targets = {"tools": "echo environment", "lint": lint, "test": test}
    (checkout / "Makefile").write_text("".join(f"{name}:\n\t@{script}\n" for name, script in targets.items()))
    if beside:
        assets = folder / "shared/envtest/assets"
        assets.parent.mkdir(parents=True)
        assets.write_text(f"#!/bin/sh\n{ASSETS}\n")
        assets.chmod(0o755)
    return run(checkout, **environ)


def run(checkout: Path, **given: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "KUBEBUILDER_"))
    }
    environ = {**inherited, **given}
    return subprocess.run(
        [checkout / ".ci/run"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_tests_run_more_of_the_simulation_than_on_a_developers_machine(tmp_path: Path):
    done = ci(tmp_path, test="echo seeds: $$SEEDS")
    assert "\nseeds: 300\n" in done.stdout


def test_both_pass_and_what_lint_said_is_one_block(tmp_path: Path):
    done = ci(tmp_path, lint="echo one; echo two", test=f"{ASKED}; sleep 0.5")
    assert done.returncode == 0, done.stderr
    assert "on /assets/new and /assets/1.33\n" in done.stdout
    assert "$ make lint\none\ntwo\n" in done.stdout
    assert done.stdout.splitlines()[-1] == ".ci/run: passed: make lint, make test"


@pytest.mark.parametrize("late", ["", "sleep 0.5; "], ids=["at once", "after the tests"])
def test_lint_that_fails_is_shown_and_named_last(late: str, tmp_path: Path):
    done = ci(tmp_path, lint=f"{late}echo 'a line too long'; false", test="true" if late else FOREVER)
    assert done.returncode == 1
    assert "a line too long" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make lint"


@pytest.mark.parametrize("late", ["", "sleep 0.5; "], ids=["at once", "after lint"])
def test_tests_that_fail_are_named_last(late: str, tmp_path: Path):
    done = ci(tmp_path, lint="true" if late else FOREVER, test=f"{late}echo 'test_it failed'; false")
    assert done.returncode == 1
    assert "test_it failed" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make test"


@pytest.mark.parametrize("beside", [True, False])
def test_control_planes_that_variables_name_go_first(beside: bool, tmp_path: Path):
    own = {"KUBEBUILDER_ASSETS": "/own/new", "KUBEBUILDER_ASSETS_OLDEST": "/own/old"}
    done = ci(tmp_path, test=ASKED, beside=beside, **own)
    assert done.returncode == 0, done.stderr
    assert "on /own/new and /own/old\n" in done.stdout


def test_without_control_planes_it_says_so_and_tests_on_the_embedded_one_alone(tmp_path: Path):
    done = ci(tmp_path, test=ASKED, beside=False)
    assert done.returncode == 0, done.stderr
    assert "KUBEBUILDER_ASSETS_OLDEST is not set" in done.stdout
    assert "run on devcluster, the embedded control plane, alone" in done.stdout
    assert "on  and \n" in done.stdout


WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def test_the_workflow_runs_the_same_on_the_oldest_and_the_newest_kubernetes():
    steps = WORKFLOW["jobs"]["ci"]["steps"]
    assert steps[-1] == {"run": ".ci/run"}
    (planes,) = [each["run"] for each in steps if each.get("name") == "control planes"]
    oldest, newest = KUBERNETES_VERSIONS
    assert re.findall(r"(KUBEBUILDER_ASSETS\w*)=\S+ use ([\d.]+)\.x ", planes) == [
        ("KUBEBUILDER_ASSETS", newest),
        ("KUBEBUILDER_ASSETS_OLDEST", oldest),
    ]


def test_the_workflow_takes_turns_with_the_versions_of_python_that_are_supported(tmp_path: Path):
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = [each.rpartition(" ")[2] for each in classifiers if ":: Python :: 3." in each]
    steps = WORKFLOW["jobs"]["ci"]["steps"]
    (turn,) = [each["run"] for each in steps if each.get("id") == "python"]
    taken = set()
    for number in range(1, len(supported) + 1):
        output = tmp_path / str(number)
        environ = {**os.environ, "GITHUB_RUN_NUMBER": str(number), "GITHUB_OUTPUT": str(output)}
        subprocess.run(["bash", "-c", turn], env=environ, check=True)
        taken.add(output.read_text())
    assert taken == {f"version={version}\n" for version in supported}
    (setup,) = [each for each in steps if "setup-python" in each.get("uses", "")]
    assert setup["with"]["python-version"] == "${{ steps.python.outputs.version }}"


def test_the_workflow_may_read_and_nothing_else():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not [job for job in WORKFLOW["jobs"].values() if "permissions" in job]


def test_hooks_of_git_are_programs_of_the_environment():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        folder, program = hook["entry"].split()[0].rsplit("/", 1)
        assert folder == ".venv/bin"  # where `make tools` puts it
        assert (Path(sys.executable).parent / program).exists()


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").iterdir()), ids=lambda form: form.name
)
def test_forms_of_issues_have_what_a_form_needs(form: Path):
    content = yaml.safe_load(form.read_text())
    assert content.keys() == {"name", "description", "body"}
    assert all(each["attributes"]["label"] for each in content["body"])
