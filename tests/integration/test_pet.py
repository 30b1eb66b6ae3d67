"""The Pet operator, used through kubectl; the pet store is a separate process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunManager
from tests.support.api_objects import condition
from tests.support.certificates import Authority
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.pets import API, assert_in_step, pet, pet_path, records
from tests.support.petstore_process import PetStoreProcess, petstore
from tests.support.walk import Walk, walking

SAMPLE = "config/samples/petstore_v1beta1_pet.yaml"
FINALIZER = "pet.petstore.example.com/finalizer"


class PetWalk(Walk):
    """Namespace with Pets, kubectl, a manager, and a pet store process."""

    store: PetStoreProcess

    def pet(self, name: str = "pet-sample1") -> dict[str, Any]:
        return self.get(API, "pets", name)

    def in_step(self) -> None:
        assert_in_step(self.plane, self.namespace, self.store.address)

    def patch(self, pet_name: str, **spec: str) -> None:
        self.kubectl("patch", "pet", pet_name, "--type=merge", "-p", json.dumps({"spec": spec}))


@pytest.fixture
def walk(crds: ControlPlane, namespace: str, run_manager: RunManager, tmp_path: Path) -> Iterator[PetWalk]:
    flags = (f"--namespaces={namespace}", "--controllers=pet", "--petstore-check-interval=1s")
    with PetStoreProcess(tmp_path / "store") as store:
        manager = run_manager(crds.kubeconfig, *flags, f"--petstore-address={store.address}")
        with walking(PetWalk, crds, namespace, manager) as walk:
            walk.store = store
            yield walk


@pytest.mark.oldest
@pytest.mark.smoke
def test_pet_operator_creates_updates_and_deletes_the_records_of_sample_pets(walk: PetWalk):
    walk.kubectl("apply", "-f", SAMPLE)
    eventually(walk.in_step)
    assert {each["name"] for each in records(walk.store.address)} == {"Thor", "Tron"}
    identity = walk.pet()["status"]["id"]
    assert FINALIZER in walk.pet()["metadata"]["finalizers"]

    header, first, second = walk.kubectl("get", "pets").splitlines()
    assert header.split() == ["NAME", "NAME", "SPECIES", "ID", "READY", "AGE"]
    assert first.split()[:5] == ["pet-sample1", "Thor", "dog", identity, "True"]
    assert second.split()[:3] == ["pet-sample2", "Tron", "cat"]

    walk.patch("pet-sample1", name="Thorbert")
    eventually(walk.in_step)
    assert walk.pet()["status"]["id"] == identity
    walk.patch("pet-sample1", species="bird", birthday="2021-04-02")
    eventually(lambda: condition(walk.pet(), "Ready")["observedGeneration"] == 3)
    (record,) = (each for each in records(walk.store.address) if each["id"] == identity)
    assert (record["name"], record["type"], record["birthday"]) == ("Thorbert", "bird", "2021-04-02")

    def tells_of_it() -> None:
        described = walk.kubectl("describe", "pet", "pet-sample1")
        assert "Added Thor (dog, born 2021-04-01) to the pet store as" in described
        assert f"Changed {identity} of the pet store to Thorbert" in described

    eventually(tells_of_it)

    assert walk.store.stop() == 0
    walk.kubectl("delete", "pet", "pet-sample1", "--wait=false")
    eventually(lambda: condition(walk.pet(), "StoreReachable")["status"] == "False")
    walk.store.start()
    eventually(lambda: walk.plane.api.find(pet_path(walk.namespace, "pet-sample1")) is None)
    walk.kubectl("delete", "-f", SAMPLE, "--ignore-not-found", "--wait=true")
    assert records(walk.store.address) == []


@pytest.mark.parametrize(
    ("controllers", "tls", "imported"),
    [
        ("*,-pet", False, []),
        ("pet", False, ["grpc", "petstore.client"]),
        ("pet", True, ["cryptography", "grpc", "petstore.client"]),
    ],
    ids=["none", "plain", "tls"],
)
def test_manager_imports_grpc_only_for_pets_and_cryptography_only_for_tls(
    crds: ControlPlane,
    namespace: str,
    run_manager: RunManager,
    tmp_path: Path,
    controllers: str,
    tls: bool,
    imported: list[str],
):
    ca = tmp_path / "ca.crt"
    ca.write_bytes(Authority("pets").pem)
    script = (
        "import atexit, sys\n"
        "from controllers.main import main\n"
        "wanted = {'cryptography', 'grpc', 'petstore.client'}\n"
        "atexit.register(lambda: print('imported:', sorted(wanted & set(sys.modules))))\n"
        "sys.exit(main())\n"
    )
    manager = run_manager(
        crds.kubeconfig,
        f"--namespaces={namespace}",
        f"--controllers={controllers}",
        "--petstore-address=127.0.0.1:1",
        *[f"--petstore-tls-ca-file={ca}"] * tls,
        program=(sys.executable, "-c", script),
    ).wait_ready()
    assert manager.stop() == 0
    assert f"imported: {imported}" in manager.process.output()


def test_pet_operator_uses_a_store_with_mutual_tls(
    crds: ControlPlane, namespace: str, run_manager: RunManager, tmp_path: Path
):
    authority = Authority("pets")
    pairs = {
        "server": authority.server("127.0.0.1"),
        "client": authority.user("manager"),
    }
    for side, pair in pairs.items():
        for name, content in zip(("crt", "key"), pair, strict=True):
            (tmp_path / f"{side}.{name}").write_bytes(content)
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.pem)

    def flags(prefix: str, side: str, authorities: str) -> list[str]:
        pair = (
            f"--{prefix}-{name}-file={tmp_path}/{side}.{end}"
            for name, end in (("cert", "crt"), ("key", "key"))
        )
        return [f"--{prefix}-{authorities}-file={ca}", *pair]

    with PetStoreProcess(tmp_path, *flags("tls", "server", "client-ca")) as store:
        place = (f"--namespaces={namespace}", "--controllers=pet", f"--petstore-address={store.address}")
        manager = run_manager(crds.kubeconfig, *place, *flags("petstore-tls", "client", "ca")).wait_ready()
        crds.api.create(pet_path(namespace), pet("sample"))
        eventually(
            lambda: condition(crds.api.get(pet_path(namespace, "sample")), "Ready")["status"] == "True"
        )
        found = petstore("search", f"--address={store.address}", *flags("tls", "client", "ca"), "-o", "json")
        assert [each["name"] for each in json.loads(found.stdout)] == ["Thor"]
        assert "no answer" in petstore("search", f"--address={store.address}", "--timeout=2s").stderr
        crds.api.delete(pet_path(namespace, "sample"))
        eventually(lambda: not crds.api.get(pet_path(namespace))["items"])
        assert manager.stop() == 0

    (tmp_path / "client.key").unlink()
    manager = run_manager(crds.kubeconfig, *place, *flags("petstore-tls", "client", "ca"))
    assert manager.process.wait(60) == 2
    assert (
        f"--petstore-tls-key-file: {tmp_path}/client.key: No such file or directory"
        in manager.process.output()
    )
