"""What the Dockerfile makes, started the way a pod starts it: as nobody, on a read-only file system."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name

from manager.version import VERSION
from tests.support import image_tree, wheels
from tests.support.daemon import Daemon, wait_until
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.dockerfile import Dockerfile
from tests.support.image_tree import ImageTree
from tests.support.manager_process import ManagerProcess
from tests.support.petstore_process import READY, petstore
from tests.support.ports import PortBlock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def tree() -> Iterator[ImageTree]:
    problem = image_tree.why_not()
    if problem:
        pytest.skip(f"no image can be laid out: {problem}")
    # A few hundred megabytes in many small files: in memory where that can be had.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        Path(folder).chmod(0o755)
        yield ImageTree(Dockerfile.read(), Path(folder))


def run(tree: ImageTree, image: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*tree.program(image), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.timeout(600)
def test_the_manager_gets_ready_as_nobody_on_a_read_only_tree(tree: ImageTree, tmp_path: Path) -> None:
    version = run(tree, "manager", "version")
    assert version.returncode == 0, version.stderr
    assert VERSION in version.stdout

    visible = tmp_path / "visible"
    visible.mkdir(mode=0o755)
    with DevclusterControlPlane(tmp_path / "control-plane") as plane:
        kubeconfig = visible / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        plane.kubectl("apply", "--filename=-", stdin=run(tree, "manager", "crds").stdout)
        program = tree.program("manager", visible=[visible])
        with ManagerProcess(kubeconfig, folder=tmp_path / "manager", program=program) as manager:
            manager.wait_ready()
            status = Path(f"/proc/{manager.process.pid}/status").read_text()
            assert "Uid:\t65532\t65532\t65532\t65532\n" in status
            assert manager.stop() == 0


@pytest.mark.timeout(600)
def test_the_pet_store_serves_as_nobody_on_a_read_only_tree(tree: ImageTree, tmp_path: Path) -> None:
    with PortBlock(2) as ports:
        address = f"127.0.0.1:{ports[0]}"
        flags = [
            "serve",
            "--memory",
            f"--bind-address={address}",
            f"--metrics-bind-address=127.0.0.1:{ports[1]}",
        ]
        store = Daemon("petstore", [*tree.program("petstore"), *flags], log=tmp_path / "petstore.log")
        try:
            store.start()
            wait_until(store, lambda: READY in store.output(), timeout=30, what=READY)
            added = petstore("add", "Thor", "--type=dog", "--birthday=2021-04-01", f"--address={address}")
            assert added.returncode == 0, added.stderr
            found = petstore("search", "--output=json", f"--address={address}")
            assert [pet["name"] for pet in json.loads(found.stdout)] == ["Thor"]
        finally:
            store.kill()


@pytest.mark.timeout(600)
def test_images_hold_a_bill_of_materials_of_just_what_is_in_them(tree: ImageTree) -> None:
    installed = tree.build("manager") / "opt/operator-manager"
    bill = json.loads((installed / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "operator-manager"
    listed = {canonicalize_name(each["name"]) for each in bill["components"]}
    there = installed.glob("lib/*/site-packages/*.dist-info")
    assert listed == wheels.dependencies().keys()
    assert {canonicalize_name(each.name.partition("-")[0]) for each in there} == {*listed, "operator-manager"}


@pytest.mark.timeout(600)
def test_images_hold_no_pip_no_sources_and_no_compiler(tree: ImageTree) -> None:
    for image in ("manager", "petstore"):
        root = tree.build(image)
        assert not (root / "src").exists()
        for module in ("pip", "ensurepip"):
            program = tree.program(image, entry=["/opt/operator-manager/bin/python", "-m", module])
            tried = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
            assert f"No module named {module}" in tried.stderr
        written = [
            path
            for path in (root / "opt").rglob("*")
            if not path.is_symlink() and path.stat().st_mode & 0o002
        ]
        assert written == []
