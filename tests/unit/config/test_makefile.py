"""The targets that kubebuilder and operator-sdk projects have; one clear line where a program is missing."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controllers.main import OPERATORS
from tests.support import ROOT
from tests.support.makefile import VENV, make
from tests.support.scheduling import SECONDS

QUICK_TESTS = ROOT / "scripts/quick-tests"

FIELD = (
    *("help", "manifests", "generate", "fmt", "lint", "test", "demo", "install", "uninstall", "run"),
    *("deploy", "undeploy", "docker-build", "docker-push", "docker-buildx", "build-installer"),
    *("bundle", "bundle-build", "bundle-push", "catalog-build"),
)


def test_help_lists_every_target_of_the_field():
    listed = {line.split()[1] for line in make("help").stdout.splitlines() if line.startswith("  make ")}
    assert set(FIELD) <= listed


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("", ".venv tools"),
        ("PYTHON=python3.11 VERSIONS=lowest", ".venv-python3.11-lowest lowest"),
    ],
)
def test_environment_depends_on_the_interpreter_and_the_versions(arguments: str, made: str):
    environ = {"PYTHON": "python3"}
    done = make("--dry-run", "--always-make", "test", *arguments.split(), environ=environ, venv=None)
    folder = made.partition(" ")[0]
    assert f"scripts/make-venv {made}\n" in done.stdout
    assert f"\n{folder}/bin/pytest -n " in done.stdout


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, Any]:
    """Return options for `make`: a PATH with basic programs, and without those that targets need."""
    for name in ("sh", "awk", "sed", "echo", "touch", "mkdir", "printf", "rm"):
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    return {"program": shutil.which("make"), "environ": {"PATH": str(tmp_path)}}


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        *((each, "kubectl") for each in ("install", "uninstall", "deploy", "chart", "bundle")),
        *((each, "docker") for each in ("docker-build", "docker-push", "docker-buildx", "bundle-push")),
        ("catalog-build", "opm"),
    ],
)
def test_a_missing_program_is_named_in_one_line(target: str, missing: str, bare: dict[str, Any]):
    # The environment is taken as it is: bringing it up to date is not what is tested.
    done = make("--silent", f"--assume-old={VENV}/.current", target, **bare)
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"make {target}: {missing} is not on the PATH; it is needed to ")
    assert [line for line in rest if not line.startswith("make: ***")] == []


def test_make_runs_tests_marked_whole_in_test_all_only():
    # SEEDS is given each time: a make that runs these tests may have it.
    (quick,), (smoke,), (whole,) = (
        [line for line in make("--dry-run", *goal).stdout.splitlines() if "/pytest " in line]
        for goal in (("test", "SEEDS="), ("test", "SEEDS=300"), ("test-all", "SEEDS="))
    )
    assert '-m "not whole and not long" tests' in quick
    assert '-m "not whole" tests' in smoke
    assert "whole" not in whole
    assert "--all-on-envtest tests" in whole


def test_a_check_runs_quick_unit_tests_and_each_operator_once():
    # Without a repository there is nothing that differs.
    listed = subprocess.run(
        [sys.executable, QUICK_TESTS], env={"GIT_DIR": "/nowhere"}, capture_output=True, text=True, check=True
    )
    files = listed.stdout.split()
    smoke = [file for file in files if not file.startswith("tests/unit/")]
    text = "".join((ROOT / file).read_text() for file in smoke)
    assert len(smoke) == text.count("pytest.mark.smoke") == len(OPERATORS)
    assert not set(files) & json.loads(SECONDS.read_text()).keys()
    assert "tests/unit/util/test_clock.py" in files


def test_beside_finds_the_unit_tests_of_a_changed_file():
    beside = runpy.run_path(str(QUICK_TESTS))["beside"]
    for changed, tested in (
        ("manager/cache/store.py", "tests/unit/cache"),
        ("manager_tools/testing.py", "tests/unit/manager_tools/test_testing.py"),
        ("config/rbac/role.yaml", "tests/unit/config"),
        ("tests/support/daemon.py", "tests/unit/support"),
    ):
        assert Path(tested) in beside(Path(changed))
