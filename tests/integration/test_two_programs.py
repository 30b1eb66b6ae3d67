"""Different programs on the same kinds of a cluster: each marks its writes with its own name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.integration import mirror_program
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess
from tests.support.ports import PortBlock

PROGRAM = (sys.executable, "-m", mirror_program.__name__)
NAMES = ("first", "first-of-all")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"


class World(NamedTuple):
    """Objects that two programs have left in their namespace, and the programs' names."""

    plane: ControlPlane
    namespace: str
    agents: set[str]
    builds: list[dict[str, str]]

    def listed(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.plane.api.get(path)["items"]
        return items

    def child(self) -> dict[str, Any]:
        """Return the object that both write."""
        made: dict[str, Any] = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/sample")
        return made

    def written(self, path: str) -> dict[str, set[str]]:
        """Return the field managers of each object, by its name."""
        return {
            each["metadata"]["name"]: {entry["manager"] for entry in each["metadata"]["managedFields"]}
            for each in self.listed(path)
        }


@pytest.fixture(scope="module")
def world(crds: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, namespace = tmp_path_factory.mktemp("programs"), "two-programs"
    crds.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    crds.api.create(foo_path(namespace), foo("sample", "friend"))
    with FaultProxy(crds.credentials, folder=folder) as proxy, PortBlock(2) as ports:
        managers = [
            ManagerProcess(
                proxy.kubeconfig,
                f"--namespaces={namespace}",
                "--leader-elect",
                f"--leader-election-namespace={namespace}",
                "--webhook-certificates=secret",
                f"--webhook-bind-address=127.0.0.1:{port}",
                f"--webhook-url=https://127.0.0.1:{port}",
                folder=folder / name,
                environ={mirror_program.VARIABLE: name},
                program=PROGRAM,
            )
            for name, port in zip(NAMES, ports, strict=True)
        ]
        with managers[0], managers[1]:
            made = World(crds, namespace, set(), [])
            for manager in managers:
                manager.wait_ready()

            def settled() -> None:
                assert len(made.child()["data"]) == len(NAMES)
                assert len(made.listed(f"/api/v1/namespaces/{namespace}/events")) >= len(NAMES)
                for sort in ("mutating", "validating"):
                    names = made.written(f"{CONFIGURATIONS}/{sort}webhookconfigurations")
                    assert {f"{name}-{sort}-webhook-configuration" for name in NAMES} <= names.keys()

            eventually(settled)
            yield made._replace(
                agents={each.user_agent for each in proxy.exchanges()},
                builds=[
                    sample.labels
                    for manager in managers
                    for sample in manager.metrics().select("operator_manager_build_info")
                ],
            )
    for sort in ("mutating", "validating"):
        for name in NAMES:
            crds.api.delete(
                f"{CONFIGURATIONS}/{sort}webhookconfigurations/{name}-{sort}-webhook-configuration"
            )
    crds.api.delete(f"/api/v1/namespaces/{namespace}")


def test_program_leads_by_its_own_lease(world: World):
    leases = world.listed(f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases")
    assert {each["metadata"]["name"] for each in leases} == set(NAMES)
    assert len({each["spec"]["holderIdentity"] for each in leases}) == len(NAMES)


def test_program_stores_its_certificate_in_its_own_secret(world: World):
    secrets = f"/api/v1/namespaces/{world.namespace}/secrets"
    assert world.written(secrets) == {f"{name}-webhook-server-cert": {f"{name}-webhook"} for name in NAMES}
    for each in world.listed(secrets):
        name = each["metadata"]["name"].removesuffix("-webhook-server-cert")
        assert each["metadata"]["labels"] == {
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/managed-by": name,
        }


@pytest.mark.parametrize("sort", ["mutating", "validating"])
def test_program_writes_its_own_webhook_configurations(world: World, sort: str):
    written = world.written(f"{CONFIGURATIONS}/{sort}webhookconfigurations")
    ours = {name: by for name, by in written.items() if name.startswith("first")}
    assert ours == {f"{name}-{sort}-webhook-configuration": {f"{name}-webhook"} for name in NAMES}


def test_program_owns_its_fields_under_its_own_field_manager(world: World):
    child = world.child()
    assert child["data"] == dict.fromkeys(NAMES, "friend")
    # The field manager of a create is the program's name and a hash of the wanted object.
    by = {
        entry["manager"].partition("+")[0]: entry["fieldsV1"]["f:data"].keys() - {"."}
        for entry in child["metadata"]["managedFields"]
    }
    assert by == {f"{name}-mirror": {f"f:{name}"} for name in NAMES}


def test_program_names_itself_in_events(world: World):
    events = world.listed(f"/api/v1/namespaces/{world.namespace}/events")
    said = {each["reportingComponent"] for each in events if each["reason"] == "Mirrored"}
    assert said == set(NAMES)
