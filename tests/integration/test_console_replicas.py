"""Console and `explain` with two replicas: they name the replica that works on an object."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess, run_once
from tests.support.roles import LEADER_ELECTION, MANAGER, Roles

SHARDS = 4
SPEC = {"name": "CloudCMP", "port": 80}
RESOURCE, VERSION = "mysrvs.myapp.idcos.com", "myapp.idcos.com/v1alpha1"
"""A kind whose objects a replica need not know all of, and that a manager may list, and not get."""


def page(manager: ManagerProcess, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{manager.console_address}{path}", timeout=10.0) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise


def shares(manager: ManagerProcess) -> dict[str, int]:
    """Return how many shards each replica has, by an overview."""
    _, _, rest = page(manager, "/").partition("Replicas and their shards")
    names, counts = (
        re.findall(rf'data-label="{label}"[^>]*>([^< ]+)', rest) for label in ("Replica", "Shards")
    )
    return dict(zip(names, map(int, counts), strict=True))


def explained(crds: ControlPlane, namespace: str, name: str, folder: Path, *flags: str) -> dict[str, Any]:
    done = run_once(
        *("explain", f"mysrv/{name}", f"--namespace={namespace}", f"--kubeconfig={crds.kubeconfig}"),
        *("--output=json", f"--manager-namespace={namespace}", *flags),
        folder=folder,
    )
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.long
def test_explain_and_console_agree_on_the_replica_that_holds_an_object(
    crds: ControlPlane, namespace: str, run_manager: RunManager, tmp_path: Path
):
    flags = (
        *(f"--namespaces={namespace}", f"--leader-election-namespace={namespace}"),
        *("--controllers=mysrv", f"--shards={SHARDS}"),
    )
    # With the rights that a manager has, and no others.
    user = f"sharing-{namespace}"
    Roles(crds, user, namespace).grant(*MANAGER, *LEADER_ELECTION, "../shards/role.yaml")
    replicas = [run_manager(crds.user_kubeconfig(user), *flags).wait_ready() for _ in range(2)]
    eventually(lambda: [sorted(shares(each).values()) for each in replicas] == [[2, 2], [2, 2]])

    def owner(name: str) -> tuple[str, list[bool]]:
        """Return the owner's identity, and for each replica whether it claims the object."""
        without = explained(crds, namespace, name, tmp_path, "--manager=none")["owners"]
        told = [
            explained(crds, namespace, name, tmp_path, f"--manager=http://{each.console_address}")
            for each in replicas
        ]
        holders = {
            each["holder"] for owners in (without, *(one["owners"] for one in told)) for each in owners
        }
        assert len(holders) == 1
        for one, replica in zip(told, replicas, strict=True):
            [whose] = one["owners"]
            [controller] = one["controllers"]
            assert bool(controller["runs"]) is whose["here"]
            text = page(replica, f"/objects/{RESOURCE}/{namespace}/{name}")
            assert ("this replica</span>" in text) is whose["here"]
            assert ("Reconcile now" in text) is whose["here"]
            assert f"shard {whose['shard']} of {SHARDS}, which {whose['holder']} holds" in text
        return holders.pop(), [one["owners"][0]["here"] for one in told]

    server = {"apiVersion": VERSION, "kind": "MySrv", "metadata": {"name": "server"}, "spec": SPEC}
    crds.api.create(f"/apis/{VERSION}/namespaces/{namespace}/mysrvs", server)
    found: list[tuple[str, list[bool]]] = []
    eventually(lambda: found.append(owner("server")), every=0.5)
    holder, here = found[-1]
    assert sorted(here) == [False, True]
    assert holder in shares(replicas[0])
