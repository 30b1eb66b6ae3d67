"""kubectl reads and follows the logs of pods, which simulated nodes beside a real server do not have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.control_plane import ControlPlane, Feature

TIMEOUT = 90.0


@pytest.fixture
def plane(control_plane: ControlPlane, namespace: str) -> Iterator[ControlPlane]:
    """Return a control plane with a running pod `one` in the namespace."""
    control_plane.require(Feature.POD_LOGS)
    control_plane.kubectl("run", "one", "--image=nginx", f"--namespace={namespace}")
    control_plane.kubectl("wait", "--for=condition=Ready", "pod/one", f"--namespace={namespace}")
    yield control_plane
    control_plane.kubectl(
        "delete", "pod", "one", "--now", "--wait=false", "--ignore-not-found", f"--namespace={namespace}"
    )


def test_logs_are_read(plane: ControlPlane, namespace: str):
    everything = plane.kubectl("logs", "one", f"--namespace={namespace}").stdout.splitlines()
    assert everything
    last = plane.kubectl("logs", "one", "--tail=1", "--timestamps", f"--namespace={namespace}").stdout
    assert last.count("\n") == 1
    assert last[:2] == "20"


def test_logs_are_followed(plane: ControlPlane, namespace: str):
    command = [
        plane.kubectl_program(),
        f"--kubeconfig={plane.kubeconfig}",
        f"--namespace={namespace}",
        "logs",
        "--follow",
        "one",
    ]
    already = len(plane.kubectl("logs", "one", f"--namespace={namespace}").stdout.splitlines())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in range(already + 1)]
        plane.kubectl("delete", "pod", "one", "--now", f"--namespace={namespace}")
        following.communicate(timeout=TIMEOUT)
    assert all(lines)
    assert following.returncode == 0


def test_kubectl_logs_previous_fails_when_container_never_restarted(plane: ControlPlane, namespace: str):
    done = plane.kubectl("logs", "one", "--previous", f"--namespace={namespace}", check=False)
    assert done.returncode == 1
    assert 'previous terminated container "one" in pod "one" not found' in done.stderr
