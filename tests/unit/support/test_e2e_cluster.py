"""Clusters on which `make e2e` runs, and its message for all others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.__main__ import main
from tests.e2e.cluster import CommandFailed, why_not


def node(runtime: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "one", "annotations": annotations}
    return {"metadata": metadata, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


def test_e2e_is_skipped_when_no_cluster_answers_or_a_node_is_simulated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main() == 0
    assert capsys.readouterr().out == "make e2e: skipped: KUBECONFIG names no cluster\n"

    def read() -> list[dict[str, Any]]:
        raise CommandFailed("kubectl get: exit code 1: E1129 couldn't get\nrefused")

    assert why_not("kubeconfig", read) == "the cluster of KUBECONFIG does not answer: refused"
    real = node("containerd://2.1.1")
    assert why_not("kubeconfig", lambda: [real]) is None
    for simulated in (node("devcluster://1"), node("containerd://2.1.1", **{"kwok.x-k8s.io/node": "fake"})):
        told = why_not("kubeconfig", lambda nodes=(real, simulated): list(nodes))
        assert told == "no kubelet runs on node one: it is simulated"
