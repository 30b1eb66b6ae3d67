"""kopf in its own process: watches, patches, finalizers and Events."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.contract,
    # kopf runs in its own process: importing it here, in every worker, takes a second.
    pytest.mark.skipif(importlib.util.find_spec("kopf") is None, reason="no kopf"),
]

OPERATOR = Path(__file__).with_name("gadget_operator.py")


def test_kopf_operator_runs_its_create_field_and_delete_handlers(
    control_plane: ControlPlane, namespace: str, gadget_group: str, tmp_path: Path
):
    api = control_plane.api
    path = f"/apis/{gadget_group}/v1/namespaces/{namespace}/gadgets"
    command = [sys.executable, "-m", "kopf", "run", "--standalone", f"--namespace={namespace}", OPERATOR]
    environ = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "GADGET_GROUP": gadget_group}
    operator = Daemon("kopf", command, log=tmp_path / "kopf.log", environ=environ)
    operator.start()
    try:
        api.create(
            path,
            {"apiVersion": f"{gadget_group}/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {}},
        )

        def status() -> Any:
            return api.get(f"{path}/one").get("status") or {}

        eventually(lambda: status().get("created") == {"size": 1})
        assert api.get(f"{path}/one")["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        api.patch(f"{path}/one", {"spec": {"size": 4}})
        eventually(lambda: status().get("seen") == 4)
        api.delete(f"{path}/one")
        eventually(lambda: api.find(f"{path}/one") is None)
        events = f"/api/v1/namespaces/{namespace}/events"
        eventually(lambda: "Farewell" in {each["reason"] for each in api.get(events)["items"]})
        assert operator.running
    finally:
        operator.stop(grace=5.0)
