"""Make targets that kubebuilder and operator-sdk projects have, and tests that scripts/quick-tests lists."""

from __future__ import annotations

import runpy
import sys

from controllers.main import OPERATORS
from tests.support import ROOT
from tests.support.makefile import make
from tests.support.tools import output_of

QUICK_TESTS = ROOT / "scripts/quick-tests"

FIELD = (
    *("help", "manifests", "generate", "fmt", "lint", "test", "demo", "install", "uninstall", "run"),
    *("deploy", "undeploy", "docker-build", "docker-push", "docker-buildx", "build-installer"),
    *("bundle", "bundle-build", "bundle-push", "catalog-build"),
)


def test_make_help_lists_the_usual_targets_of_operator_projects():
    listed = {line.split()[1] for line in make("help").stdout.splitlines() if line.startswith("  make ")}
    assert set(FIELD) <= listed


def test_quick_tests_script_lists_fast_unit_tests_and_one_smoke_test_per_operator():
    # Without a git repository, no file counts as changed.
    files = output_of(sys.executable, QUICK_TESTS, environ={"GIT_DIR": "/nowhere"}).split()
    smoke = [(ROOT / file).read_text() for file in files if not file.startswith("tests/unit/")]
    assert all("@pytest.mark.smoke" in text for text in smoke)
    assert "".join(smoke).count("@pytest.mark.smoke\n") == len(OPERATORS)
    assert "tests/unit/util/test_clock.py" in files
    assert "tests/unit/webhook/test_review.py" not in files
    unit_tests = ROOT / "tests/unit"
    slow = runpy.run_path(str(QUICK_TESTS))["SLOW"]
    assert [pattern for pattern in slow if not any(unit_tests.glob(pattern))] == []
