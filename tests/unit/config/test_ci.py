"""What `.ci/run` does with lint and tests side by side, one of which fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.dockerfile import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ASSETS = 'echo "/assets/${1:-new}"'
FOREVER = "echo begun; while :; do sleep 0.1; done"


def ci(folder: Path, *, lint: str, test: str) -> subprocess.CompletedProcess[str]:
    """Run it in a checkout whose targets do this."""
    checkout = folder / "checkout"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", checkout / ".ci/run")
    targets = {"venv": "echo environment", "lint": lint, "test": test}
    (checkout / "Makefile").write_text("".join(f"{name}:\n\t@{script}\n" for name, script in targets.items()))
    assets = folder / "shared/envtest/assets"
    assets.parent.mkdir(parents=True)
    assets.write_text(f"#!/bin/sh\n{ASSETS}\n")
    assets.chmod(0o755)
    return run(checkout)


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        [checkout / ".ci/run"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_both_pass_and_what_lint_said_is_one_block(tmp_path: Path):
    asked = 'echo "on $$KUBEBUILDER_ASSETS and $$KUBEBUILDER_ASSETS_OLDEST"'
    done = ci(tmp_path, lint="echo one; echo two", test=f"{asked}; sleep 0.5")
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


def test_without_control_planes_it_says_what_is_missing(tmp_path: Path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "../shared/envtest/assets is missing" in done.stderr
