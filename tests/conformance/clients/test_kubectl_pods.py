"""kubectl exec (with the protocol v5.channel.k8s.io), kubectl top and kubectl logs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from devcluster.api.pod_sessions import Process
from devcluster.background import BackgroundCluster
from tests.support.running_pods import create_running_pod

_KUBECTL = shutil.which("kubectl", path=os.environ.get("KUBEBUILDER_ASSETS")) or shutil.which("kubectl") or ""

pytestmark = pytest.mark.skipif(not _KUBECTL, reason="no kubectl on the PATH, nor in KUBEBUILDER_ASSETS")


@pytest.fixture
def background() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(controllers=False) as background:
        background.run(create_running_pod(background.cluster))
        yield background


def kubectl(
    background: BackgroundCluster, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [_KUBECTL, f"--kubeconfig={background.cluster.kubeconfig_path}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30, check=False)


async def shout(process: Process) -> int:
    """Write stdin in upper case to stdout, and the command to stderr; return the exit code."""
    while data := await process.read():
        await process.write(data.upper())
    await process.write(" ".join(process.command).encode(), stderr=True)
    return 3


def test_kubectl_exec_gets_output_and_exit_code(background: BackgroundCluster):
    background.cluster.sessions.exec = shout
    done = kubectl(background, "exec", "-i", "web", "--", "run", "it", stdin="hello\n" * 10_000)
    assert done.stdout == "HELLO\n" * 10_000
    # kubectl may log that it ignores the empty first message of each stream.
    errors = [each for each in done.stderr.splitlines() if "Unknown stream id" not in each]
    assert errors == ["run itcommand terminated with exit code 3"]
    assert done.returncode == 3


def test_kubectl_top_shows_the_usage_given_in_pod_annotations(background: BackgroundCluster):
    refused = kubectl(background, "top", "pods")
    assert refused.stderr == "error: Metrics API not available\n"
    usage = ("devcluster.local/cpu=250m", "devcluster.local/memory=64Mi")
    assert kubectl(background, "annotate", "pod", "web", *usage).returncode == 0
    done = kubectl(background, "top", "pods", "--no-headers")
    assert done.stdout.split() == ["web", "250m", "64Mi"]


def test_kubectl_logs_reads_and_follows_logs():
    with BackgroundCluster() as cluster:
        kubectl(cluster, "run", "one", "--image=nginx")
        kubectl(cluster, "wait", "--for=condition=Ready", "pod/one")
        last = kubectl(cluster, "logs", "one", "--tail=1", "--timestamps").stdout
        assert (last.count("\n"), last[:2]) == (1, "20")
        previous = kubectl(cluster, "logs", "one", "--previous")
        assert previous.returncode == 1
        assert 'previous terminated container "one" in pod "one" not found' in previous.stderr
        already = len(kubectl(cluster, "logs", "one").stdout.splitlines())
        assert already
        command = [_KUBECTL, f"--kubeconfig={cluster.cluster.kubeconfig_path}", "logs", "--follow", "one"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            lines = [following.stdout.readline() for _ in range(already + 1)]
            kubectl(cluster, "delete", "pod", "one", "--now")
            following.communicate(timeout=90)
    assert all(lines)
    assert following.returncode == 0
