"""Clusters on which `make e2e` runs, and its message for all others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.__main__ import main
from tests.e2e.cluster import CommandFailed, why_not


def node(runtime: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "one", "annotations": annotations}
    return {"metadata": metadata, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


@pytest.mark.parametrize(
    "simulated",
    [
        node("devcluster://1"),
        node(""),
        {"metadata": {"name": "one"}, "status": {}},
        node("containerd://2.1.1", **{"kwok.x-k8s.io/node": "fake"}),
    ],
)
def test_e2e_is_skipped_when_a_node_is_simulated(simulated: dict[str, Any]):
    nodes = [node("containerd://2.1.1"), simulated]
    assert why_not("kubeconfig", lambda: nodes) == "no kubelet runs on node one: it is simulated"


@pytest.mark.parametrize(
    "error",
    [
        CommandFailed("kubectl get: exit code 1: E1129 couldn't get\nrefused"),
        FileNotFoundError(2, "x\nrefused"),
    ],
)
def test_e2e_is_skipped_in_one_line_when_the_cluster_does_not_answer(error: Exception):
    def read() -> list[dict[str, Any]]:
        raise error

    assert why_not("kubeconfig", read) == "the cluster of KUBECONFIG does not answer: refused"


def test_e2e_ends_well_without_a_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main() == 0
    assert capsys.readouterr().out == "make e2e: skipped: KUBECONFIG names no cluster\n"
