"""The operators of examples/ run as their pages say, on each control plane, with their generated roles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support import ROOT
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.eventually import eventually
from tests.support.roles import LEADER_ELECTION, MANAGER, OWNER_REFERENCES, Roles

pytestmark = pytest.mark.contract

EXAMPLES = {"cronjob": "{.status.nextScheduleTime}", "database": "{.status.upgrade.endedAt}"}
"""What the status of the sample comes to have."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_under_their_generated_roles(
    name: str, control_plane: ControlPlane, namespace: str, run_manager: RunManager, tmp_path: Path
):
    control_plane.require(Feature.READY_PODS)
    program = (sys.executable, "-m", f"examples.{name}")
    environ = {"PYTHONPATH": str(ROOT), "WATCH_NAMESPACE": namespace}
    config = tmp_path / "config"
    config.mkdir()
    subprocess.run([*program, "generate"], cwd=tmp_path, env=environ, check=True, capture_output=True)
    crds = subprocess.run([*program, "crds"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
    wait_served(control_plane)
    files = [config / "rbac" / each for each in (*MANAGER, *LEADER_ELECTION, *OWNER_REFERENCES)]
    Roles(control_plane, name, namespace).grant(*files)

    manager = run_manager(control_plane.user_kubeconfig(name), program=program, environ=environ)
    manager.wait_ready()
    sample = ROOT / "examples" / name / "sample.yaml"
    control_plane.kubectl("apply", "-n", namespace, "-f", sample)
    read = ("get", "-n", namespace, "-f", sample, "-o", f"jsonpath={EXAMPLES[name]}")
    eventually(lambda: control_plane.kubectl(*read).stdout != "")
    control_plane.kubectl("delete", "-n", namespace, "-f", sample)
    assert manager.logs(level="error") == []
    assert manager.stop() == 0
