"""A manager that runs on a developer's machine, and registers its webhooks only while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.pets import OLD_API, alpha, pet, pet_path
from tests.support.webhook_manager import webhook_manager

KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
REGISTERED = [f"operator-manager-{kind}-webhook-configuration" for kind in ("mutating", "validating")]
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pets.petstore.example.com"
FLAGS = ("--controllers=mysrv", "--leader-elect=false")


class Registration:
    """The webhook configurations on the API server, and the conversion that was installed for Pets."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.installed = self.conversion

    @property
    def conversion(self) -> object:
        return self.plane.api.get(DEFINITION)["spec"]["conversion"]

    @property
    def names(self) -> list[str]:
        """Return the names of the existing webhook configurations."""
        paths = [f"/apis/admissionregistration.k8s.io/v1/{kind}" for kind in KINDS]
        return [each["metadata"]["name"] for path in paths for each in self.plane.api.get(path)["items"]]

    def is_complete(self) -> bool:
        return self.names == REGISTERED and self.conversion != self.installed

    def is_removed(self) -> bool:
        return self.names == [] and self.conversion == self.installed


@pytest.fixture
def registration(bare_control_plane: ControlPlane) -> Registration:
    install_crds(bare_control_plane)
    return Registration(bare_control_plane)


def test_manager_registers_local_webhooks_and_removes_them_when_it_stops(
    registration: Registration, tmp_path: Path
):
    api = registration.plane.api
    with webhook_manager(registration.plane, tmp_path, *FLAGS) as manager:
        eventually(registration.is_complete)
        query = {"dryRun": "All"}
        with pytest.raises(ApiFailure, match="must not be in the future"):
            api.request("POST", pet_path("default"), query=query, body=pet("a", birthday="2999-01-01"))
        old = f"/apis/{OLD_API}/namespaces/default/pets"
        eventually(lambda: api.request("POST", old, query=query, body=alpha("thor")))
        manager.interrupt()
        assert manager.wait() == 0
        assert registration.is_removed()
        assert manager.logs(kind="pets.v1beta1.petstore.example.com")  # the API version that remains usable


def test_manager_start_removes_webhooks_that_a_killed_manager_registered(
    registration: Registration, tmp_path: Path
):
    with webhook_manager(registration.plane, tmp_path / "first", *FLAGS) as manager:
        # The manager may have further webhooks to register after the first call.
        eventually(registration.is_complete)
        manager.kill()
    assert registration.names == REGISTERED
    with ManagerProcess(registration.plane.kubeconfig, *FLAGS, folder=tmp_path / "second") as manager:
        manager.wait_ready()
        eventually(registration.is_removed)

        def is_logged() -> None:
            told = manager.logs(msg="removed the webhooks of a killed manager: nothing listens at their URL")
            assert {each["object"] for each in told} == {*REGISTERED, "pets.petstore.example.com"}

        eventually(is_logged)
