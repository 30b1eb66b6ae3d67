"""`.ci/run`: interpreters, lint and tests side by side, failures; and the workflows that a fork runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from manager.version import KUBERNETES_VERSIONS
from tests.support import ROOT

ASSETS = 'echo "/assets/${1:-new}"'
ASKED = 'echo "on $$KUBEBUILDER_ASSETS and $$KUBEBUILDER_ASSETS_OLDEST"'
FOREVER = "echo begun; while :; do sleep 0.1; done"
IMAGE, OLDEST = "3.13", "3.11"


def ci(
    folder: Path,
    *,
    lint: str = "true",
    test: str = "true",
    quick: str = "true",
    beside: bool = True,
    pythons: Sequence[str] = (IMAGE, OLDEST),
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run it in a checkout whose targets do this, with control planes `beside` it or none, and `pythons`."""
    checkout = folder / "checkout"
    programs = folder / "bin"
    for each in (checkout / ".ci", checkout / "scripts", programs):
        each.mkdir(parents=True)
    for name in (".ci/run", "scripts/find-python"):
        shutil.copy(ROOT / name, checkout / name)
    (checkout / "Dockerfile").write_text(f"ARG PYTHON_IMAGE=python:{IMAGE}.9-slim\n")
    (checkout / "pyproject.toml").write_text(f'requires-python = ">={OLDEST}"\n')
    targets = {"tools": "echo environment", "lint": lint, "test": test, "test-quick": quick}
    (checkout / "Makefile").write_text("".join(f"{name}:\n\t@{script}\n" for name, script in targets.items()))
    for version in ["3.12", *pythons]:
        for name in (f"python{version}", "python3"):
            tells = f'if [ "$1" = --version ]; then echo Python {version}.9; else echo {version}; fi'
            program(programs / name, tells)
    for name in (
        "bash",
        "sh",
        "make",
        *["awk", "cat", "dirname", "echo", "false", "mktemp", "printf", "pwd", "rm", "sed", "sleep", "true"],
    ):
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    if beside:
        assets = folder / "shared/envtest/assets"
        assets.parent.mkdir(parents=True)
        program(assets, ASSETS)
    return run(checkout, PATH=str(programs), **environ)


def program(path: Path, script: str) -> None:
    """Write a shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(checkout: Path, **given: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "KUBEBUILDER_", "PYTHON"))
    }
    environ = {**inherited, **given}
    return subprocess.run(
        [checkout / ".ci/run"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_ci_runs_more_seeds_of_the_simulation_than_make_test(tmp_path: Path):
    done = ci(tmp_path, test="echo seeds: $$SEEDS")
    assert "\nseeds: 300\n" in done.stdout


def test_ci_prints_the_output_of_lint_as_one_block(tmp_path: Path):
    done = ci(tmp_path, lint="echo one; echo two", test=f"{ASKED}; sleep 0.5")
    assert done.returncode == 0, done.stderr
    assert "on /assets/new and /assets/1.33\n" in done.stdout
    assert f"$ make lint PYTHON={tmp_path}/bin/python3.13\none\ntwo\n" in done.stdout


@pytest.mark.parametrize(
    ("pythons", "tested", "quick", "untested"),
    [
        ((IMAGE, OLDEST), IMAGE, OLDEST, []),
        ((IMAGE,), IMAGE, None, [f"Python {OLDEST}, the oldest version"]),
        ((OLDEST,), OLDEST, None, [f"Python {IMAGE}, the image version"]),
        ((), None, None, [f"Python {IMAGE}, the image version", f"Python {OLDEST}, the oldest version"]),
    ],
    ids=["both", "the image's", "the oldest", "neither"],
)
def test_ci_tests_the_images_python_and_the_oldest_and_names_those_that_are_missing(
    pythons: tuple[str, ...], tested: str | None, quick: str | None, untested: list[str], tmp_path: Path
):
    on = 'echo "$@ runs on [$(notdir $(PYTHON))]"'
    done = ci(tmp_path, lint=on, test=on, quick=on, pythons=pythons)
    assert done.returncode == 0, done.stderr
    name = f"python{tested}" if tested else ""
    ran = re.findall(r"^(\S+) runs on \[(.*)\]$", done.stdout, re.MULTILINE)
    expected = [("lint", name), ("test", name), *([("test-quick", f"python{quick}")] if quick else [])]
    assert sorted(ran) == expected
    *_, last = done.stdout.splitlines()
    also = f", make test-quick on Python {quick}.9" if quick else ""
    assert last == f".ci/run: passed: make lint and make test on Python {tested or '3.12'}.9{also}"
    warned = [f".ci/run: NOT TESTED: {each}, is not on this machine" for each in untested]
    assert [line for line in done.stdout.splitlines() if "NOT TESTED" in line] == warned * 2


def test_ci_runs_all_on_the_interpreter_that_PYTHON_names_alone(tmp_path: Path):  # noqa: N802 -- a variable
    on = "echo $@ runs on $(PYTHON)"
    done = ci(tmp_path, lint=on, test=on, quick=on, PYTHON="python3.12")
    assert done.returncode == 0, done.stderr
    ran = re.findall(r"^(\S+) runs on (.*)$", done.stdout, re.MULTILINE)
    assert sorted(ran) == [("lint", "python3.12"), ("test", "python3.12")]
    assert done.stdout.splitlines()[-1] == ".ci/run: passed: make lint and make test on Python 3.12.9"


@pytest.mark.parametrize("late", ["", "sleep 0.5; "], ids=["at once", "after the tests"])
def test_ci_shows_lint_that_fails_and_names_it_last(late: str, tmp_path: Path):
    done = ci(tmp_path, lint=f"{late}echo 'a line too long'; false", test="true" if late else FOREVER)
    assert done.returncode == 1
    assert "a line too long" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make lint"


@pytest.mark.parametrize("late", ["", "sleep 0.5; "], ids=["at once", "after lint"])
def test_ci_shows_tests_that_fail_and_names_them_last(late: str, tmp_path: Path):
    done = ci(tmp_path, lint="true" if late else FOREVER, test=f"{late}echo 'test_it failed'; false")
    assert done.returncode == 1
    assert "test_it failed" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make test"


def test_ci_ends_the_tests_when_the_oldest_python_fails(tmp_path: Path):
    done = ci(tmp_path, test=FOREVER, quick="echo 'test_it failed'; false")
    assert done.returncode == 1
    assert "test_it failed" in done.stdout
    assert done.stderr.splitlines()[-1] == ".ci/run: FAILED: make test-quick"


@pytest.mark.parametrize("beside", [True, False])
def test_ci_prefers_the_control_planes_that_variables_name(beside: bool, tmp_path: Path):
    own = {"KUBEBUILDER_ASSETS": "/own/new", "KUBEBUILDER_ASSETS_OLDEST": "/own/old"}
    done = ci(tmp_path, test=ASKED, beside=beside, **own)
    assert done.returncode == 0, done.stderr
    assert "on /own/new and /own/old\n" in done.stdout


def test_ci_says_that_it_tests_on_devcluster_alone_when_there_is_no_control_plane(tmp_path: Path):
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
