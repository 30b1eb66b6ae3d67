"""`.ci/run`: interpreters, lint and tests side by side, failures; and the workflows that a fork runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from manager.util.version import KUBERNETES_VERSIONS, VERSION
from tests.support import ROOT
from tests.support.makefile import make
from tests.support.manager_process import PROGRAM

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


@pytest.mark.parametrize("target", ["lint", "test", "quick"])
def test_ci_ends_with_the_output_and_the_name_of_the_target_that_fails(target: str, tmp_path: Path):
    runs = {"test": FOREVER} | {target: f"sleep 0.2; echo '{target} found a fault'; false"}
    done = ci(tmp_path, **runs)  # type: ignore[arg-type]  # the scripts of targets
    assert done.returncode == 1
    assert f"{target} found a fault" in done.stdout
    name = "test-quick" if target == "quick" else target
    assert done.stderr.splitlines()[-1] == f".ci/run: FAILED: make {name}"


def test_ci_uses_the_control_planes_beside_the_checkout(tmp_path: Path):
    done = ci(tmp_path, test=ASKED)
    assert "on /assets/new and /assets/1.33\n" in done.stdout


def test_ci_says_that_it_tests_on_devcluster_alone_when_there_is_no_control_plane(tmp_path: Path):
    done = ci(tmp_path, test=ASKED, beside=False)
    assert done.returncode == 0, done.stderr
    assert "KUBEBUILDER_ASSETS_OLDEST is not set" in done.stdout
    assert "run on devcluster, the embedded control plane, alone" in done.stdout
    assert "on  and \n" in done.stdout


WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")
}
JOBS = WORKFLOWS["ci"]["jobs"]
E2E = WORKFLOWS["e2e"]["jobs"]["kind"]["steps"]


def supported() -> list[str]:
    """Return the versions of Python that pyproject.toml names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [each.rpartition(" ")[2] for each in classifiers if ":: Python :: 3." in each]


def find_python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts/find-python", *arguments]
    given = {**os.environ, **environ}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)


def test_workflow_runs_ci_on_the_oldest_and_the_newest_kubernetes():
    steps = JOBS["ci"]["steps"]
    assert steps[-1]["run"] == ".ci/run"
    (planes,) = [each["run"] for each in steps if each.get("name") == "control planes"]
    oldest, newest = KUBERNETES_VERSIONS
    assert re.findall(r"(KUBEBUILDER_ASSETS\w*)=\S+ use ([\d.]+)\.x ", planes) == [
        ("KUBEBUILDER_ASSETS", newest),
        ("KUBEBUILDER_ASSETS_OLDEST", oldest),
    ]


def test_workflow_runs_ci_on_every_supported_version_of_python():
    versions = JOBS["ci"]["strategy"]["matrix"]["python"]
    assert set(supported()) <= set(versions)
    assert JOBS["ci"]["steps"][-1]["env"] == {"PYTHON": "python${{ matrix.python }}"}
    assert find_python("--version", "oldest").stdout.strip() == versions[0]
    assert find_python("--version", "image").stdout.strip() in versions


def test_release_workflow_tests_the_tag_before_it_publishes_what_make_builds():
    steps = WORKFLOWS["release"]["jobs"]["release"]["steps"]
    commands = [each["run"] for each in steps if "run" in each]
    expected = (".ci/run", "make docker-buildx", "make release")
    assert [each for each in commands if each in expected] == list(expected)
    assert commands[-1].startswith("gh release create ")
    (check,) = [each["run"] for each in steps if each.get("name") == "the tag is the version"]
    check = check.replace(".venv/bin/operator-manager", str(PROGRAM))
    environ = {**os.environ, "GITHUB_REF_NAME": f"v{VERSION}"}
    told = subprocess.run(["bash", "-c", check], env=environ, cwd=ROOT, timeout=60, check=False)
    assert told.returncode == 0


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_uses_few_actions_by_their_commits_and_may_only_read(name: str):
    jobs = WORKFLOWS[name]["jobs"].values()
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    allowed = [job["permissions"] for job in jobs if "permissions" in job]
    assert allowed == ([{"contents": "write"}] if name == "release" else [])
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    assert {each.partition("@")[0] for each in used} <= {"actions/checkout", "actions/setup-python"}
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}", each) for each in used)


def test_find_python_takes_the_interpreter_on_the_path_that_works(tmp_path: Path):
    for folder, script in (("broken", "exit 127"), ("good", "echo 3.99")):
        (tmp_path / folder).mkdir()
        program(tmp_path / folder / "python3.99", script)
    path = f"{tmp_path}/broken:{tmp_path}/good:/usr/bin:/bin"
    assert find_python("3.99", PATH=path).stdout == f"{tmp_path}/good/python3.99\n"
    missing = find_python("3.98", PATH=path)
    assert (missing.returncode, missing.stderr) == (1, "find-python: Python 3.98 is not on the PATH\n")


def test_e2e_workflow_loads_the_images_that_make_builds_and_runs_make_e2e():
    assert E2E[-1] == {"run": "make e2e"}
    (images,) = [each["run"] for each in E2E if each.get("name") == "images"]
    build, load = images.splitlines()
    assert build == "make docker-build"
    built = make("--dry-run", "docker-build").stdout
    assert load.split()[:3] == ["kind", "load", "docker-image"]
    assert load.split()[3:] == re.findall(r" --tag (\S+) ", built)
