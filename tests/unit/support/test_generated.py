"""Generated files of devcluster, compared with a real API server and with the code of devcluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from devcluster.builtin import jobs, networking, pod_checks, workloads
from devcluster.types.table import choices
from devcluster.version import KUBERNETES
from tests.recordings import versions
from tests.recordings.generated import renewed
from tests.support.envtest import EnvtestControlPlane, why_not


def test_devcluster_version_equals_the_recorded_kubernetes_version():
    assert versions()["kubernetes"] == KUBERNETES


@pytest.mark.parametrize(
    ("constant", "field"),
    [
        (pod_checks.RESTART_POLICIES, "core.v1.PodSpec.restartPolicy"),
        (pod_checks.DNS_POLICIES, "core.v1.PodSpec.dnsPolicy"),
        (pod_checks.MESSAGE_POLICIES, "core.v1.Container.terminationMessagePolicy"),
        (pod_checks.EFFECTS, "core.v1.Toleration.effect"),
        (workloads.STRATEGIES, "apps.v1.DaemonSetUpdateStrategy.type"),
        (jobs.MODES, "batch.v1.JobSpec.completionMode"),
        (networking.PROTOCOLS, "networking.v1.NetworkPolicyPort.protocol"),
        (networking.DIRECTIONS, "networking.v1.NetworkPolicySpec.policyTypes"),
    ],
)
def test_devcluster_constant_lists_the_allowed_values_of_an_api_field(constant: tuple[str, ...], field: str):
    assert sorted(constant) == list(choices(field))


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not on the PATH")
def test_generated_devcluster_files_equal_files_generated_from_a_real_server(tmp_path: Path):
    with EnvtestControlPlane(tmp_path, parts=("etcd", "apiserver", "controllers")) as plane:
        for path, text in renewed(plane, KUBERNETES).items():
            before, after = path.read_text().splitlines(), text.splitlines()
            assert [json.dumps(line)[:200] for line in after if line not in before] == [], path
            assert len(before) == len(after), path
