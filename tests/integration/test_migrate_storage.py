"""`operator-manager migrate-storage` with objects that etcd stores in an old version."""

from __future__ import annotations

import base64
import json
import signal
import sqlite3
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manager.api import Resource, crd
from manager_tools.migration.definitions import migration_rights
from tests.conftest import StartControlPlane
from tests.support.api_objects import new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.crds import DEFINITIONS, wait_served
from tests.support.daemon import Daemon
from tests.support.envtest import BARE, EnvtestControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import PROGRAM, run_once
from tests.support.roles import grant_rules
from tests.support.webhook_server import WebhookServer
from tests.unit.manager_tools.migration.server import GROUP, NEW, OLD, POSITION, versions
from tests.unit.manager_tools.migration.server import NAME as GADGETS

PLURAL = "gadgets"


def definition(
    storage: str, *, conversion: Mapping[str, Any] | None = None, status: bool = True
) -> dict[str, Any]:
    """Return a CRD with the given storage version."""
    spec = {
        "group": GROUP,
        "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": PLURAL, "singular": "gadget"},
        "scope": "Namespaced",
        "versions": versions(storage=storage, status=status),
        "conversion": conversion or {"strategy": "None"},
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": GADGETS}, "spec": spec}


def install(plane: ControlPlane, storage: str, **options: Any) -> None:
    """Apply the CRD, and wait until the server uses its storage version."""
    plane.api.apply([definition(storage, **options)])
    wait_served(plane)
    if isinstance(plane, EnvtestControlPlane):
        # The real server uses the old CRD for a moment longer.
        eventually(lambda: _is_storage_version(plane, storage), every=0.02)


def _is_storage_version(plane: EnvtestControlPlane, version: str) -> bool:
    """Create and delete an object; return whether the server stored it in this version."""
    path = gadgets_path("default", version)
    plane.api.create(path, {**gadget(0, version), "metadata": {"name": "probe"}})
    (stored,) = (each for each in map(json.loads, in_etcd(plane.etcd)) if each["metadata"]["name"] == "probe")
    plane.api.delete(f"{path}/probe")
    return bool(stored["apiVersion"] == f"{GROUP}/{version}")


def gadgets_path(namespace: str, version: str = NEW) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/{PLURAL}"


def create(plane: ControlPlane, namespace: str, count: int, *, version: str = OLD) -> None:
    """Create `count` gadgets, named `g0000` and so on, with sizes from 0."""
    plane.api.create_many(
        gadgets_path(namespace, version), [gadget(number, version) for number in range(count)]
    )


def gadget(number: int, version: str = OLD) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gadget",
        "metadata": {"name": f"g{number:04}", "labels": {"app": "gadgets"}},
        "spec": {"size": number},
    }


def stored_versions_of(plane: ControlPlane) -> list[str]:
    """Return `status.storedVersions` of the CRD."""
    found: list[str] = plane.api.get(f"{DEFINITIONS}/{GADGETS}")["status"]["storedVersions"]
    return found


def stored_versions(plane: ControlPlane) -> Counter[str]:
    """Return the number of gadgets stored in each version."""
    objects = in_etcd(plane.etcd) if isinstance(plane, EnvtestControlPlane) else in_file(plane)
    return Counter(json.loads(each)["apiVersion"].rpartition("/")[2] for each in objects)


def in_etcd(address: str) -> list[bytes]:
    """Return the stored gadgets, read from etcd through its JSON gateway."""
    first, end = (base64.b64encode(f"/registry/{GROUP}/{PLURAL}{last}".encode()).decode() for last in "/0")
    body = json.dumps({"key": first, "range_end": end}).encode()
    with urllib.request.urlopen(f"http://{address}/v3/kv/range", data=body, timeout=30.0) as answer:
        return [base64.b64decode(each["value"]) for each in json.load(answer).get("kvs", [])]


def in_file(plane: ControlPlane) -> list[bytes]:
    """Return the gadgets in devcluster's data file; devcluster must not run, because it locks the file."""
    plane.kill("apiserver")
    try:
        with closing(sqlite3.connect(plane.folder / "data")) as database:
            query = "SELECT data FROM objects WHERE grp = ? AND plural = ?"
            return [data for (data,) in database.execute(query, (GROUP, PLURAL))]
    finally:
        plane.restart("apiserver")


QUICK = ("--rate=1000", "--settle=300ms")
Migrate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    return module_control_plane(parts=BARE)


@pytest.fixture
def home(plane: ControlPlane) -> Iterator[str]:
    """Yield a namespace for one test; then delete the CRD and thereby its gadgets."""
    yield new_namespace(plane)
    path = f"{DEFINITIONS}/{GADGETS}"
    plane.api.delete(path)
    eventually(lambda: plane.api.find(path) is None)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[WebhookServer]:
    with WebhookServer(tmp_path) as running:
        yield running


@pytest.fixture
def migrate(plane: ControlPlane, tmp_path: Path) -> Migrate:
    """Return a function that runs `migrate-storage`."""

    def run(*flags: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        used = f"--kubeconfig={kubeconfig or plane.kubeconfig}"
        return run_once("migrate-storage", GADGETS, used, *QUICK, *flags, folder=tmp_path)

    return run


def gadgets(plane: ControlPlane, home: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in plane.api.get(gadgets_path(home))["items"]}


def without_version(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


@pytest.mark.contract
@pytest.mark.parametrize("status", [True, False], ids=["with-status", "without-status"])
def test_migrate_storage_rewrites_objects_stored_in_an_old_version_and_changes_nothing_else(
    plane: ControlPlane, home: str, migrate: Migrate, status: bool
):
    install(plane, OLD, status=status)
    create(plane, home, 30)
    install(plane, NEW, status=status)
    plane.api.patch(f"{gadgets_path(home)}/g0003", {"metadata": {"labels": {"new": "yes"}}})
    assert stored_versions(plane) == {OLD: 29, NEW: 1}
    before = gadgets(plane, home)

    done = migrate("--page-size=7")

    assert done.returncode == 0, done.stderr
    assert "30 objects: 29 rewritten, 1 already migrated" in done.stdout
    assert stored_versions(plane) == {NEW: 30}
    assert stored_versions_of(plane) == [NEW]
    after = gadgets(plane, home)
    assert {name: without_version(each) for name, each in after.items()} == {
        name: without_version(each) for name, each in before.items()
    }
    unwritten = [
        name
        for name in after
        if after[name]["metadata"]["resourceVersion"] == before[name]["metadata"]["resourceVersion"]
    ]
    assert unwritten == ["g0003"]

    again = migrate()
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    assert gadgets(plane, home) == after


@pytest.mark.contract
def test_migrate_storage_fails_and_keeps_managed_fields_when_conversion_to_the_old_version_fails(
    plane: ControlPlane, webhook: WebhookServer, home: str, migrate: Migrate
):
    def to_new_alone(gadget: dict[str, Any], wanted: str) -> dict[str, Any]:
        if not wanted.endswith(NEW):
            raise ValueError("no way back")
        return {**gadget, "apiVersion": wanted}

    webhook.convert = to_new_alone
    try:
        install(plane, OLD, conversion=webhook.conversion())
        create(plane, home, 2)
        install(plane, NEW, conversion=webhook.conversion())
        before = gadgets(plane, home)
        assert all(each["metadata"]["managedFields"] for each in before.values())

        done = migrate()

        assert gadgets(plane, home) == before
    finally:
        # Deleting a CRD lists its objects, which would wait for the webhook.
        install(plane, NEW)
    assert done.returncode == 1
    assert "no way back" in done.stderr
    assert stored_versions_of(plane) == [OLD, NEW]


def test_migrate_storage_ends_on_a_signal_and_the_next_run_continues(
    plane: ControlPlane, home: str, migrate: Migrate, tmp_path: Path
):
    install(plane, OLD)
    create(plane, home, 100)
    install(plane, NEW)
    flags = (f"--kubeconfig={plane.kubeconfig}", "--rate=20", "--page-size=10", "--settle=300ms")
    running = Daemon("migrate", [PROGRAM, "migrate-storage", GADGETS, *flags], log=tmp_path / "log")
    old = gadgets(plane, home)["g0025"]["metadata"]["resourceVersion"]
    running.start()
    eventually(lambda: gadgets(plane, home)["g0025"]["metadata"]["resourceVersion"] != old)
    running.signal(signal.SIGTERM)
    assert running.wait(30) == 1
    assert "run it again to go on" in running.output()
    kept = json.loads(plane.api.get(f"{DEFINITIONS}/{GADGETS}")["metadata"]["annotations"][POSITION])["done"]
    assert 20 <= kept < 100
    # Applying the CRD again does not remove the saved position.
    again = ("apply", "--server-side", "--force-conflicts", "--filename=-")
    plane.kubectl(*again, stdin=json.dumps(definition(NEW)))

    finished = migrate()
    assert finished.returncode == 0, finished.stderr
    assert f"continuing after {kept} objects" in finished.stderr
    assert f"{100 - kept} objects: " in finished.stdout
    assert stored_versions(plane) == {NEW: 100}
    assert stored_versions_of(plane) == [NEW]


@crd(status=True)
class Gadget(Resource, group=GROUP, version=NEW, plural=PLURAL):
    """Model of the gadgets; the test generates RBAC rules from this model."""


@pytest.mark.contract
def test_migrate_storage_names_the_missing_right_and_succeeds_with_the_rights_of_its_role(
    plane: ControlPlane, home: str, migrate: Migrate
):
    install(plane, OLD)
    create(plane, home, 3)
    install(plane, NEW)
    user = plane.user_kubeconfig("migrator")
    refused = migrate(kubeconfig=user)
    assert refused.returncode == 1
    assert 'User "migrator" cannot get resource "customresourcedefinitions"' in refused.stderr

    *most, last = migration_rights([Gadget])
    try:
        grant_rules(plane, "migrator", most)

        def missing() -> None:
            told = migrate(kubeconfig=user)
            assert told.returncode == 1
            assert f"the right is missing to patch {PLURAL}/status.{GROUP}" in told.stderr

        eventually(missing)
        grant_rules(plane, "migrator", [*most, last])

        def enough() -> None:
            done = migrate(kubeconfig=user)
            assert done.returncode == 0, done.stderr

        eventually(enough)
    finally:
        plane.kubectl("delete", "clusterrolebinding,clusterrole", "migrator", "--ignore-not-found")
    assert stored_versions_of(plane) == [NEW]
