"""`operator-manager plan`: prints the changes that this version would make, and changes nothing."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_objects import condition, deployment_path, new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess, run_once
from tests.support.memcacheds import memcached, memcached_path
from tests.support.pets import pet, pet_path
from tests.support.wordpresses import wordpress, wordpress_path

OLD, NEW = "memcached:1.6.38-alpine", "memcached:1.6.39-alpine"
PASSWORD = "Xk-secret-of-the-site-9"


class Cluster:
    """A namespace with objects that a manager has reconciled before it stopped."""

    def __init__(self, plane: ControlPlane, namespace: str, store: socket.socket, folder: Path) -> None:
        self.plane = plane
        self.namespace = namespace
        self.store = store
        self.folder = folder
        host, port = store.getsockname()
        self.address = f"{host}:{port}"

    def plan(self, *flags: str) -> tuple[int, str]:
        """Run `operator-manager plan`; return its exit code and output; assert that it changed no object."""
        before = self.versions()
        done = run_once(
            "plan",
            f"--namespaces={self.namespace}",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--petstore-address={self.address}",
            f"--memcached-image={OLD}",
            *flags,
            folder=self.folder,
        )
        assert self.versions() == before
        with pytest.raises(BlockingIOError):
            self.store.accept()  # no client has called
        assert done.stderr == ""
        assert all(line.isprintable() for line in done.stdout.splitlines())
        return done.returncode, done.stdout

    def file(self, *objects: dict[str, Any]) -> str:
        """Write these objects to a file; return the flag `--filename=PATH` for that file."""
        path = self.folder / f"{secrets.token_hex(4)}.json"
        named = [{**each, "metadata": {**each["metadata"], "namespace": self.namespace}} for each in objects]
        path.write_text(json.dumps({"kind": "List", "items": named}))
        return f"--filename={path}"

    def versions(self) -> str:
        """Return the resource versions of all objects in the namespace, including Events."""
        kinds = "events,secrets,services,persistentvolumeclaims,deployments,foos,memcacheds,pets,wordpresses"
        shown = (
            '-o=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}'
        )
        versions: str = self.plane.kubectl("get", kinds, f"--namespace={self.namespace}", shown).stdout
        return versions


@pytest.fixture(scope="module")
def cluster(crds: ControlPlane, storage: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, namespace = tmp_path_factory.mktemp("plan"), new_namespace(crds)
    api = crds.api
    api.create(memcached_path(namespace), memcached("web", 0))
    api.create(foo_path(namespace), foo("lonely", "jack"))
    flags = (f"--namespaces={namespace}", f"--memcached-image={OLD}", "--controllers=memcached,foo")

    def is_seen_to() -> None:
        seen = api.get(memcached_path(namespace, "web"))
        assert condition(seen, "Progressing")["status"] == "False"
        assert condition(api.get(foo_path(namespace, "lonely")), "Happy")["status"] == "False"

    with ManagerProcess(crds.kubeconfig, *flags, folder=folder / "manager") as manager:
        manager.wait_ready()
        eventually(is_seen_to)
        manager.terminate()
    with socket.create_server(("127.0.0.1", 0)) as store:
        store.setblocking(False)
        yield Cluster(crds, namespace, store, folder)
    api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.contract
def test_plan_reports_no_changes_when_all_objects_are_reconciled(cluster: Cluster):
    code, printed = cluster.plan("--all", "--controllers=memcached,foo")
    assert (code, printed) == (0, "0 of 2 objects would change something\n")


@pytest.mark.contract
def test_plan_shows_that_a_new_image_changes_the_deployment_and_the_status(cluster: Cluster):
    code, printed = cluster.plan("--all", "--controllers=memcached", f"--memcached-image={NEW}")
    assert code == 3
    name = f"apps.v1.Deployment.{cluster.namespace}.web"
    own = f"cache.example.com.v1.Memcached.{cluster.namespace}.web"
    lines = printed.splitlines()

    assert lines[:3] == [
        f"Memcached {cluster.namespace}/web would change {name}, {own}",
        f"--- live/{name}",
        f"+++ planned/{name}",
    ]
    changed = [line.replace(" ", "") for line in lines if line.startswith(("+ ", "- "))]
    assert f"-image:{OLD}" in changed
    assert f"+image:{NEW}" in changed
    assert "+reason:RollingOut" in changed
    assert lines[-1] == "1 of 1 objects would change something"


@pytest.mark.contract
def test_plan_shows_that_a_label_changed_in_a_child_will_be_restored(cluster: Cluster):
    path = deployment_path(cluster.namespace, "web")
    label = "app.kubernetes.io/name"  # no controller reacts to this label
    cluster.plane.api.patch(path, {"metadata": {"labels": {label: "theirs"}}})
    try:
        code, printed = cluster.plan(cluster.file(memcached("web"), foo("lonely", "jack")))
        assert code == 3
        assert f"\n-    {label}: theirs\n" in printed
        assert f"\n+    {label}: memcached\n" in printed
        assert "1 of 2 objects would change something" in printed
    finally:
        cluster.plane.api.patch(path, {"metadata": {"labels": {label: "memcached"}}})


@pytest.mark.contract
def test_plan_of_new_objects_calls_no_external_system(cluster: Cluster):
    api, namespace = cluster.plane.api, cluster.namespace
    hostile = foo("odd", "Not\x1b[2J\u202e A Name")
    site = wordpress("site", sqlrootpassword=PASSWORD)
    new = ((foo_path, hostile), (pet_path, pet("rex")), (wordpress_path, site))
    for path, each in new:
        api.create(path(namespace), each)
    try:
        code, printed = cluster.plan(cluster.file(*(each for _, each in new)))
        assert code == 3
        assert "NameImpossible" in printed
        assert "controllers/" not in printed
        rex = printed[printed.index(f"Pet {namespace}/rex would change") :]
        assert "+  finalizers:" in rex
        assert f"Pet {namespace}/rex: the next action is outside of the cluster" in rex
        assert f"+++ planned/v1.Secret.{namespace}.site-mysql" in printed
        assert "+  root-password: '***'" in printed
        assert f"+++ planned/v1.PersistentVolumeClaim.{namespace}.site-" in printed
        assert f"+++ planned/apps.v1.Deployment.{namespace}.site-mysql" in printed
    finally:
        for path, each in new:
            api.delete(path(namespace, each["metadata"]["name"]))
