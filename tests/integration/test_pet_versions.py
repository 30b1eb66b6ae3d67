"""Pets in two API versions, for kubectl, watches, server-side apply and the operator."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import StartControlPlane
from tests.support.api_access import ApiFailure
from tests.support.api_objects import manifest, new_namespace, object_path
from tests.support.control_plane import ControlPlane
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.pets import API as BETA
from tests.support.pets import OLD_API as ALPHA
from tests.support.pets import assert_in_step, records
from tests.support.petstore_process import PetStoreProcess
from tests.support.ports import PortBlock

pytestmark = pytest.mark.contract

NOTE_OF_ALPHA, NOTE_OF_BETA = ALPHA, BETA  # annotations have the same names
NOON = "2021-04-01T12:00:00+01:00"
ANN = {"name": "Ann", "email": "ann@example.com"}


class Site:
    """A namespace of a control plane, and the pet store process that the Pet operator uses."""

    def __init__(self, plane: ControlPlane, namespace: str, store: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.store = store

    def path(self, api: str, name: str = "") -> str:
        return object_path(api, self.namespace, "pets", name)

    def get(self, api: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.api.get(self.path(api, name))
        assert found["apiVersion"] == api
        return found

    def kubectl(self, *arguments: str, **options: Any) -> tuple[str, str]:
        """Run kubectl in the namespace; return its stdout and stderr."""
        done = self.plane.kubectl(f"--namespace={self.namespace}", *arguments, **options)
        return done.stdout, done.stderr


def body(api: str, pet: str, /, **spec: Any) -> dict[str, Any]:
    """Return a Pet in the API version `api` with these spec fields."""
    kind = {"type": "dog", "birthday": NOON} if api == ALPHA else {"species": "dog", "birthday": "2021-04-01"}
    return manifest(api, "Pet", pet, **{"name": "Thor", **kind, **spec})


def annotations(found: dict[str, Any]) -> dict[str, str]:
    """Return the annotations except those of the operator."""
    kept: dict[str, str] = found["metadata"].get("annotations", {})
    return {key: text for key, text in kept.items() if not key.startswith("pet.petstore.example.com/")}


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start a control plane for this module, because a CRD can name only one converting manager."""
    return module_control_plane(parts=BARE, crds=True)


@pytest.fixture(scope="module")
def store(plane: ControlPlane) -> Iterator[PetStoreProcess]:
    folder = plane.folder / "store"
    folder.mkdir()
    with PetStoreProcess(folder, "--memory") as running:
        yield running


@pytest.fixture(scope="module")
def manager(plane: ControlPlane, store: PetStoreProcess) -> Iterator[ManagerProcess]:
    """Run a manager that converts Pets for the API server of `plane`."""
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        with ManagerProcess(
            plane.kubeconfig,
            "--controllers=pet",
            f"--petstore-address={store.address}",
            "--petstore-check-interval=2s",
            f"--webhook-bind-address={address}",
            f"--webhook-url=https://{address}",
            f"--webhook-local-path={plane.folder / 'webhook'}",
            folder=plane.folder / "manager",
        ) as running:
            running.wait_ready()
            for api in (ALPHA, BETA):
                eventually(functools.partial(is_followed, plane, api))
            yield running


def is_followed(plane: ControlPlane, api: str) -> None:
    """Assert that a watch of Pets works; the server restarts its watch handlers after a change of the CRD."""
    query = {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "1"}
    plane.api.request("GET", f"/apis/{api}/pets", query=query)


@pytest.fixture
def site(plane: ControlPlane, manager: ManagerProcess, store: PetStoreProcess) -> Iterator[Site]:
    site = Site(plane, new_namespace(plane), store.address)
    yield site
    # The next test needs an empty store.
    site.kubectl("delete", "pets", "--all")
    eventually(lambda: records(store.address) == [])
    assert not [line for line in manager.logs() if line.get("level") == "error"]


@pytest.mark.oldest
def test_pet_written_in_v1alpha1_can_be_read_in_both_versions(site: Site):
    _, said = site.kubectl("create", "-f", "-", stdin=json.dumps(body(ALPHA, "old")))
    assert (
        "Warning: petstore.example.com/v1alpha1 Pet is deprecated; use petstore.example.com/v1beta1 Pet"
        in said
    )
    new = site.get(BETA, "old")
    assert new["spec"] == {"name": "Thor", "species": "dog", "birthday": "2021-04-01"}
    assert json.loads(annotations(new)[NOTE_OF_ALPHA]) == {"birthday": NOON}
    old = site.get(ALPHA, "old")
    assert old["spec"] == {"name": "Thor", "type": "dog", "birthday": NOON}
    assert annotations(old) == {}
    eventually(lambda: assert_in_step(site.plane, site.namespace, site.store))
    assert site.get(ALPHA, "old")["status"] == site.get(BETA, "old")["status"]

    # Printer columns of each version.
    shown, _ = site.kubectl("get", "pets.v1beta1.petstore.example.com")
    assert shown.splitlines()[0].split()[2] == "SPECIES"
    shown, said = site.kubectl("get", "pets.v1alpha1.petstore.example.com")
    assert shown.splitlines()[0].split()[2] == "TYPE"
    assert "Warning" in said
    # Without an explicit version, kubectl uses the one without a warning.
    assert "SPECIES" in site.kubectl("get", "pets")[0]


def test_pet_list_succeeds_when_a_pet_has_annotations_at_the_size_limit(site: Site):
    full = {"annotations": {"a": "x" * (256 * 1024 - 1)}}
    with pytest.raises(ApiFailure, match="annotations"):
        site.plane.api.create(
            site.path(BETA), body(BETA, "full", owner=ANN) | {"metadata": {"name": "full", **full}}
        )
    # Validation skips objects under deletion.
    held = {"metadata": {"name": "full", "finalizers": ["example.com/held"]}}
    site.plane.api.create(site.path(BETA), body(BETA, "full", owner=ANN) | held)
    site.kubectl("delete", "--wait=false", "pet", "full")
    eventually(lambda: site.get(BETA, "full")["metadata"]["finalizers"] == ["example.com/held"])
    noted = site.get(BETA, "full")["metadata"].get("annotations", {})
    left_out = {"metadata": full | {"annotations": dict.fromkeys(noted) | full["annotations"]}}
    site.plane.api.patch(site.path(BETA, "full"), left_out)
    site.plane.api.create(site.path(BETA), body(BETA, "other", owner=ANN))
    listed = site.plane.api.get(site.path(ALPHA))["items"]
    assert [(each["metadata"]["name"], "owner" in each["spec"]) for each in listed] == [
        ("full", False),
        ("other", False),
    ]
    assert json.loads(annotations(site.get(ALPHA, "other"))[NOTE_OF_BETA]) == {"owner": ANN}
    site.plane.api.patch(site.path(BETA, "full"), {"metadata": {"finalizers": None}})
