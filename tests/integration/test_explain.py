"""`operator-manager explain`, which names the cause of a problem in its first three lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess, run_once
from tests.support.memcacheds import memcached, memcached_path
from tests.support.pets import pet, pet_path
from tests.support.roles import MANAGER, Roles

NO_STORE = "127.0.0.1:9"


class Stage:
    """A namespace with failing objects, and a manager that watches it."""

    def __init__(self, plane: ControlPlane, namespace: str, manager: ManagerProcess, folder: Path) -> None:
        self.plane = plane
        self.namespace = namespace
        self.manager = manager
        self.folder = folder

    def explain(self, what: str, *flags: str) -> tuple[int, str]:
        """Run explain for the object `what`; return the exit code and the output."""
        done = run_once(
            "explain",
            what,
            f"--namespace={self.namespace}",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--manager=http://{self.manager.console_address}",
            *flags,
            folder=self.folder,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    def blames(self, what: str, *words: str, flags: tuple[str, ...] = ()) -> str:
        """Wait until the first three lines of explain contain these words; return its output."""
        printed = ""

        def is_blamed() -> None:
            nonlocal printed
            code, printed = self.explain(what, *flags)
            first = "\n".join(printed.splitlines()[:3])
            assert code == 3, printed
            assert all(word in first for word in words), printed

        eventually(is_blamed, every=0.5)
        return printed


@pytest.fixture(scope="module")
def stage(crds: ControlPlane, storage: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder, namespace = tmp_path_factory.mktemp("explain"), new_namespace(crds)
    flags = (
        f"--namespaces={namespace}",
        f"--petstore-address={NO_STORE}",
        "--petstore-check-interval=1s",
        "--controllers=memcached,foo,pet,wordpress",
    )
    with ManagerProcess(crds.kubeconfig, *flags, folder=folder / "manager") as manager:
        yield Stage(crds, namespace, manager.wait_ready(), folder)
    crds.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.contract
def test_explain_names_an_unreachable_pet_store_as_the_cause(stage: Stage):
    stage.plane.api.create(pet_path(stage.namespace), pet("rex"))
    stage.blames("pets/rex", "StoreUnreachable", NO_STORE)
    following = f"Next: when the pet store at {NO_STORE} answers; it is asked every second or two"
    eventually(lambda: following in stage.explain("pets/rex")[1], every=0.5)


@pytest.mark.contract
def test_explain_names_a_missing_right_as_the_cause(stage: Stage, namespace: str, tmp_path: Path):
    plane, user = stage.plane, f"explained-{namespace}"
    kubeconfig = plane.user_kubeconfig(user)
    Roles(plane, user, namespace).grant(*MANAGER, keep=lambda it: it != ("apps", "deployments", "create"))
    flags = (f"--namespaces={namespace}", "--controllers=memcached")
    with ManagerProcess(kubeconfig, *flags, folder=tmp_path / "manager") as manager:
        limited = Stage(plane, namespace, manager.wait_ready(), tmp_path)
        plane.api.create(memcached_path(namespace), memcached("denied", 1))
        printed = limited.blames("memcached/denied", "Memcached denied", "Forbidden", "deployments")
        assert "post deployments denied 403" in printed
        # The manager has several runs to show.
        eventually(lambda: "retry after the back-off" in limited.explain("memcached/denied")[1], every=0.5)


@pytest.mark.contract
def test_explain_reports_a_ready_object_and_fails_for_a_missing_object(stage: Stage):
    stage.plane.api.create(memcached_path(stage.namespace), memcached("fine", 0))

    def is_ready() -> dict[str, Any]:
        code, printed = stage.explain("memcached/fine", "-o", "json")
        report: dict[str, Any] = json.loads(printed)
        assert (code, report["ready"], report["blocking"]) == (0, True, [])
        return report

    report = eventually(is_ready, every=0.5)
    assert report["tree"]["children"][0]["kind"] == "Deployment"
    [controller] = report["controllers"]
    assert (controller["controller"], controller["uid"]) == ("memcached", report["uid"])
    first = controller["runs"][0]
    assert first["outcome"] == "success"
    assert [(each["verb"], each["code"]) for each in first["requests"]][:1] == [("post", 201)]
    _, printed = stage.explain("memcached/fine")
    assert printed.splitlines()[0] == f"Memcached {stage.namespace}/fine is ready"

    flags = (f"--namespace={stage.namespace}", f"--kubeconfig={stage.plane.kubeconfig}")
    done = run_once("explain", "memcached/nobody", *flags, folder=stage.folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not found" in done.stderr
    assert done.stderr.count("\n") == 1
