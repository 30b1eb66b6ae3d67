"""Thousands of Pets in one list, stored in two versions."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.api_access import ApiFailure
from tests.support.api_objects import object_path
from tests.support.crds import DEFINITIONS
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.namespaces import create_namespace
from tests.support.pets import API as NEW
from tests.support.pets import OLD_API as OLD
from tests.support.pets import alpha, beta
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import StartControlPlane
    from tests.support.control_plane import ControlPlane

DEFINITION = f"{DEFINITIONS}/pets.petstore.example.com"
MANY = 1_200
MIXED = "mixed"
# What v1alpha1 says beside the day has to come back as it was written.
MOMENTS = ("2021-04-01T00:00:00Z", "2021-04-01T12:30:00Z", "2021-04-01T23:30:00-02:00")


class Pets(NamedTuple):
    """A namespace of an API server whose webhooks a manager serves."""

    plane: ControlPlane
    namespace: str

    def path(self, version: str, name: str = "") -> str:
        return object_path(version, self.namespace, "pets", name)

    def items(self, version: str) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.plane.api.get(self.path(version))["items"]}


def old_pet(index: int) -> dict[str, Any]:
    return alpha(f"old-{index}", name=f"Old {index}", birthday=MOMENTS[index % len(MOMENTS)])


def new_pet(index: int) -> dict[str, Any]:
    owner = {"owner": {"name": f"Owner {index}"}} if index % 2 else {}
    return beta(f"new-{index}", name=f"New {index}", species="cat", birthday="2020-02-29", **owner)


WRITTEN = {
    OLD: [old_pet(index) for index in range(MANY)],
    NEW: [new_pet(index) for index in range(MANY)],
}


def store_as(plane: ControlPlane, version: str) -> None:
    """Have Pets stored in that version, and wait until they are."""
    definition = plane.api.get(DEFINITION)
    for each in definition["spec"]["versions"]:
        each["storage"] = version.endswith(f"/{each['name']}")
    plane.api.request("PUT", DEFINITION, body=definition)
    probe = {**WRITTEN[version][0], "metadata": {"name": "probe"}}
    path = Pets(plane, MIXED).path(version)
    eventually(lambda: plane.api.request("POST", path, query={"dryRun": "All"}, body=probe))


@pytest.fixture(scope="module")
def served(
    module_control_plane: StartControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    plane = module_control_plane(parts=BARE, crds=True)
    create_namespace(plane, MIXED)
    # Nobody converts yet, so each can only be written while it is stored in its own version.
    for version, bodies in WRITTEN.items():
        store_as(plane, version)
        plane.api.create_many(Pets(plane, MIXED).path(version), bodies)
    folder = tmp_path_factory.mktemp("manager")
    with (
        PortBlock(1) as ports,
        ManagerProcess(
            plane.kubeconfig,
            f"--webhook-bind-address=127.0.0.1:{ports[0]}",
            f"--webhook-url=https://127.0.0.1:{ports[0]}",
            f"--webhook-local-path={folder / 'webhook'}",
            # Webhooks are served for all operators; whoever runs Pets would need a store.
            "--controllers=foo",
            folder=folder,
        ) as manager,
    ):
        manager.wait_ready()
        eventually(lambda: _is_pointed(plane))
        yield plane


def _is_pointed(plane: ControlPlane) -> None:
    """The server has learnt where the webhooks are."""
    pets = Pets(plane, MIXED)
    for version, body in ((OLD, old_pet(MANY)), (NEW, new_pet(MANY))):
        plane.api.request("POST", pets.path(version), query={"dryRun": "All"}, body=body)
    late = beta("late", birthday="2999-01-01")
    try:
        plane.api.request("POST", pets.path(NEW), query={"dryRun": "All"}, body=late)
    except ApiFailure as failure:
        assert failure.status == http.HTTPStatus.UNPROCESSABLE_ENTITY  # noqa: PT017 -- it may come to raise
    else:
        raise AssertionError("born in the future, and nobody minds")


@pytest.mark.contract
def test_thousands_of_mixed_pets_are_listed_through_both_versions_as_they_were_written(
    served: ControlPlane,
) -> None:
    pets, (old, new) = Pets(served, MIXED), WRITTEN.values()
    in_old, in_new = eventually(lambda: pets.items(OLD)), eventually(lambda: pets.items(NEW))
    assert in_old.keys() == in_new.keys() == {each["metadata"]["name"] for each in (*old, *new)}
    # Each as it was written, in the version in which it was.
    for bodies, shown in ((old, in_old), (new, in_new)):
        assert all(shown[each["metadata"]["name"]]["spec"] == each["spec"] for each in bodies)
    for name, each in in_new.items():
        if name.startswith("old-"):
            # Half past eleven in the evening two hours west of Greenwich is the next day there.
            expected = "2021-04-02" if in_old[name]["spec"]["birthday"] == MOMENTS[2] else "2021-04-01"
            assert (each["spec"]["species"], each["spec"]["birthday"]) == ("dog", expected)
        else:
            spec = in_old[name]["spec"]
            assert (spec["type"], spec["birthday"]) == ("cat", "2020-02-29T00:00:00Z")
            assert "owner" not in spec
