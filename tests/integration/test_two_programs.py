"""Programs for the same kinds in one cluster; each has its own field manager."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.integration import mirror_program
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess
from tests.support.ports import PortBlock

PROGRAM = (sys.executable, "-m", mirror_program.__name__)
NAMES = ("first", "first-of-all")
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
SORTS = ("mutating", "validating")


def test_each_manager_program_uses_its_own_name_in_leases_field_managers_and_events(
    crds: ControlPlane, namespace: str, tmp_path: Path
):
    api = crds.api
    child = f"/api/v1/namespaces/{namespace}/configmaps/sample"
    events = f"/api/v1/namespaces/{namespace}/events"
    configurations = {sort: {f"{name}-{sort}-webhook-configuration" for name in NAMES} for sort in SORTS}

    def managers_of(path: str) -> dict[str, set[str]]:
        """Return the field managers of each object by object name."""
        return {
            each["metadata"]["name"]: {entry["manager"] for entry in each["metadata"]["managedFields"]}
            for each in api.get(path)["items"]
        }

    def registered(sort: str) -> dict[str, set[str]]:
        return managers_of(f"{REGISTRATION}/{sort}webhookconfigurations")

    def settled() -> None:
        assert len(api.get(child)["data"]) == len(NAMES)
        assert all(configurations[sort] <= registered(sort).keys() for sort in SORTS)
        said = {
            each["reportingComponent"] for each in api.get(events)["items"] if each["reason"] == "Mirrored"
        }
        assert said == set(NAMES)

    def program(name: str, port: int) -> ManagerProcess:
        return ManagerProcess(
            crds.kubeconfig,
            f"--namespaces={namespace}",
            "--leader-elect",
            f"--leader-election-namespace={namespace}",
            "--webhook-certificates=secret",
            f"--webhook-bind-address=127.0.0.1:{port}",
            f"--webhook-url=https://127.0.0.1:{port}",
            folder=tmp_path / name,
            environ={mirror_program.VARIABLE: name},
            program=PROGRAM,
        )

    api.create(foo_path(namespace), foo("sample", "friend"))
    try:
        with PortBlock(2) as ports, program(NAMES[0], ports[0]) as one, program(NAMES[1], ports[1]) as other:
            for manager in (one, other):
                manager.wait_ready()
            eventually(settled)
            leases = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")["items"]
            assert {each["metadata"]["name"] for each in leases} == set(NAMES)
            assert len({each["spec"]["holderIdentity"] for each in leases}) == len(NAMES)
        secrets = f"/api/v1/namespaces/{namespace}/secrets"
        assert managers_of(secrets) == {f"{name}-webhook-server-cert": {f"{name}-webhook"} for name in NAMES}
        for each in api.get(secrets)["items"]:
            name = each["metadata"]["name"].removesuffix("-webhook-server-cert")
            labels = ("app.kubernetes.io/name", "app.kubernetes.io/managed-by")
            assert each["metadata"]["labels"] == dict.fromkeys(labels, name)
        for sort in SORTS:
            ours = {name: by for name, by in registered(sort).items() if name.startswith("first")}
            assert ours == {f"{name}-{sort}-webhook-configuration": {f"{name}-webhook"} for name in NAMES}
        made: dict[str, Any] = api.get(child)
        assert made["data"] == dict.fromkeys(NAMES, "friend")
        # The field manager of a create is the program's name and a hash of the wanted object.
        by = {
            entry["manager"].partition("+")[0]: entry["fieldsV1"]["f:data"].keys() - {"."}
            for entry in made["metadata"]["managedFields"]
        }
        assert by == {f"{name}-mirror": {f"f:{name}"} for name in NAMES}
    finally:
        for sort, names in configurations.items():
            for name in names:
                api.delete(f"{REGISTRATION}/{sort}webhookconfigurations/{name}")
