"""A manager on its developer's machine: its webhooks are registered only while it runs."""

from __future__ import annotations

import fcntl
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane
from tests.support.crds import install_crds, printed_crds
from tests.support.daemon import Daemon
from tests.support.eventually import eventually
from tests.support.makefile import VENV
from tests.support.manager_process import ManagerProcess
from tests.support.pets import alpha, pet
from tests.support.ports import PortBlock
from tests.support.webhook_manager import webhook_manager

KINDS_OF_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
REGISTERED = [f"operator-manager-{kind}-webhook-configuration" for kind in ("mutating", "validating")]
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pets.petstore.example.com"
OLD_PETS = "/apis/petstore.example.com/v1alpha1/namespaces/default/pets"
PETS = "/apis/petstore.example.com/v1beta1/namespaces/default/pets"
UNBORN = pet("unborn", birthday="2999-01-01")


@pytest.fixture(autouse=True)
def alone_on_this_machine() -> Iterator[None]:
    """Run one test at a time: each one needs the usual port to be free twice."""
    with (Path(tempfile.gettempdir()) / "operator-manager-make-run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


def test_make_run_registers_a_webhook_that_refuses_an_invalid_pet(plane: ControlPlane, tmp_path: Path):
    before = plane.api.get(DEFINITION)["spec"]["conversion"]
    with ExitStack() as stack:
        ports = PortBlock(1)
        stack.callback(ports.close)
        arguments = (
            f"--kubeconfig={plane.kubeconfig}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{ports[0]}",
            "--console-bind-address=0",
            f"--webhook-local-path={tmp_path / 'webhook'}",
        )
        make = [
            shutil.which("make") or "make",
            "--silent",
            f"VENV={VENV}",
            f"--assume-old={VENV}/.current",
            "-C",
            ROOT,
            "run",
            f"ARGS={' '.join(arguments)}",
        ]
        running = Daemon("make-run", make, log=tmp_path / "log")
        running.start()
        stack.callback(running.kill)

        def refused() -> bool:
            running.check()
            try:
                plane.api.request("POST", PETS, query={"dryRun": "All"}, body=UNBORN)
            except ApiFailure as failure:
                return "must not be in the future" in str(failure)
            return False

        eventually(refused)
        eventually(lambda: all_registered(plane, before))
        old = alpha("thor")

        def converted() -> None:
            running.check()
            try:
                plane.api.request("POST", OLD_PETS, query={"dryRun": "All"}, body=old)
            except ApiFailure as failure:  # the server has not heard of it yet
                raise AssertionError(str(failure)) from None

        eventually(converted)
        # `make install` applies webhook configurations too, whose Service does not exist.
        plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=printed_crds())
        eventually(converted)

        # The manager removes its registrations when it stops.
        running.signal(signal.SIGINT)
        running.wait(20)
        assert "pets.v1beta1.petstore.example.com" in running.output()
        assert "No resources found" in plane.kubectl("get", "pets.v1beta1.petstore.example.com").stderr
        assert registered(plane) == []
        assert plane.api.get(DEFINITION)["spec"]["conversion"] == before


def registered(plane: ControlPlane) -> list[str]:
    """Return the names of the existing webhook configurations."""
    return [
        each["metadata"]["name"]
        for kind in KINDS_OF_CONFIGURATIONS
        for each in plane.api.get(f"/apis/admissionregistration.k8s.io/v1/{kind}")["items"]
    ]


def test_manager_start_removes_webhooks_that_a_killed_manager_registered(plane: ControlPlane, tmp_path: Path):
    pets = ("--controllers=mysrv", "--leader-elect=false")
    before = plane.api.get(DEFINITION)["spec"]["conversion"]
    with webhook_manager(plane, tmp_path / "first", *pets) as manager:
        # The manager may have further webhooks to register after the first call.
        eventually(lambda: all_registered(plane, before))
        manager.kill()
    assert registered(plane) == REGISTERED
    with ManagerProcess(plane.kubeconfig, *pets, folder=tmp_path / "second") as manager:
        manager.wait_ready()
        eventually(lambda: taken_away(plane, before))
        # The line follows the request.
        eventually(lambda: check_removal_is_logged(manager))


def all_registered(plane: ControlPlane, before: object) -> None:
    assert registered(plane) == REGISTERED
    assert plane.api.get(DEFINITION)["spec"]["conversion"] != before


def taken_away(plane: ControlPlane, before: object) -> None:
    assert registered(plane) == []
    assert plane.api.get(DEFINITION)["spec"]["conversion"] == before


def check_removal_is_logged(manager: ManagerProcess) -> None:
    told = manager.logs(msg="removed the webhooks of a killed manager: nothing listens at their URL")
    assert {each["object"] for each in told} == {*REGISTERED, "pets.petstore.example.com"}
