"""The operators of examples/, run on each control plane with only the rights of their generated roles."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.conftest import RunManager
from tests.support import ROOT
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.eventually import eventually
from tests.support.roles import LEADER_ELECTION, MANAGER, OWNER_REFERENCES, Roles
from tests.support.tools import output_of

pytestmark = pytest.mark.contract

HOURS_AGO = '{"status":{"lastScheduleTime":"2026-01-01T00:00:00Z"}}'
KEEP_NONE = '{"spec":{"schedule":"0 0 1 1 *","successfulJobsHistoryLimit":0}}'
ENDED = '{"status":{"phase":"Succeeded"}}'

EXAMPLES: Mapping[str, Sequence[tuple[Sequence[str], str, str]]] = {
    "cronjob": (
        ((), "{.status.nextScheduleTime}", ".+"),
        (("--subresource=status", "-p", HOURS_AGO), "{.status.active}", r"\[\]"),
        (("-p", KEEP_NONE), "{.status.lastScheduleTime} {.status.active}", r"20(?!26-01-01).+ \[\]"),
    ),
    "dask": (
        ((), "{.status.phase}", "Running"),
        (("pod/sample-runner", "--subresource=status", "-p", ENDED), "{.status.phase}", "Successful"),
    ),
    "database": (
        ((), "{.status.upgrade.state} {.status.ready}", "Succeeded 3"),
        (
            ("-p", '{"spec":{"version":"16.2"}}'),
            "{.status.upgrade.state} {.status.upgrade.achieved} {.status.ready}",
            'Succeeded {"spec.version":"16.2"} 3',
        ),
    ),
}
"""Patches of the sample or of the named object, and the field of the sample to read afterwards."""
GONE = {"cronjob": "jobs", "dask": "daskclusters", "database": "jobs"}
"""The resource of the children that the operator must have deleted at the end."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_need_only_the_rights_of_their_generated_roles(
    name: str, control_plane: ControlPlane, namespace: str, run_manager: RunManager, tmp_path: Path
):
    control_plane.require(Feature.READY_PODS)
    program = (sys.executable, "-m", f"examples.{name}")
    environ = {"PYTHONPATH": str(ROOT), "WATCH_NAMESPACE": namespace}
    config = tmp_path / "config"
    config.mkdir()
    output_of(*program, "generate", cwd=tmp_path, environ=environ)
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=output_of(*program, "crds"))
    wait_served(control_plane)
    files = [config / "rbac" / each for each in (*MANAGER, *LEADER_ELECTION, *OWNER_REFERENCES)]
    Roles(control_plane, name, namespace).grant(*files)

    manager = run_manager(control_plane.user_kubeconfig(name), program=program, environ=environ)
    manager.wait_ready()
    sample = ROOT / "examples" / name / "sample.yaml"
    control_plane.kubectl("apply", "-n", namespace, "-f", sample)
    for change, path, shown in EXAMPLES[name]:
        if change:
            target = ("-f", sample) if change[0].startswith("-") else ()
            control_plane.kubectl("patch", "-n", namespace, "--type=merge", *target, *change)
        read = ("get", "-n", namespace, "-f", sample, "-o", f"jsonpath={path}")
        eventually(
            lambda read=read, shown=shown: (
                re.fullmatch(shown, control_plane.kubectl(*read).stdout) is not None
            )
        )
    eventually(lambda: control_plane.kubectl("get", GONE[name], "-n", namespace).stdout == "")
    control_plane.kubectl("delete", "-n", namespace, "-f", sample)
    assert manager.logs(level="error") == manager.logs(msg="reconcile failed") == []
    assert manager.stop() == 0
