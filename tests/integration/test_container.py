"""The images as a container engine builds and runs them; without one, test_image.py does what can be done."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.container_engine import ContainerEngine
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.manager_process import ManagerProcess
from tests.support.petstore_process import PetStoreProcess, assert_keeps_a_pet

pytestmark = pytest.mark.whole

BUILT = ("operator-manager", "petstore")
REVISION = "0123456789abcdef"
WHO = "import os, pathlib; print(os.getuid(), os.getgid(), pathlib.Path('/proc/1/cmdline').read_bytes())"
WRITE = "import pathlib; pathlib.Path('/opt/operator-manager/new').touch()"


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    engine = ContainerEngine.find()
    try:
        manager, store = (engine.image(name) for name in BUILT)
        engine.make("docker-build", f"IMG={manager}", f"PETSTORE_IMG={store}", f"REVISION={REVISION}")
        yield engine
    finally:
        engine.remove_images(*BUILT, "dev", "bundle")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.timeout(2400)
def test_manager_gets_ready_and_stops_in_a_container(engine: ContainerEngine, tmp_path: Path):
    visible = tmp_path / "visible"
    visible.mkdir(mode=0o755)
    image = engine.image("operator-manager")
    with (
        DevclusterControlPlane(tmp_path / "control-plane") as plane,
        engine.container(image) as (_, crds),
        engine.container(image, visible=[visible]) as (name, program),
    ):
        kubeconfig = visible / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        kubeconfig.chmod(0o644)
        plane.kubectl("apply", "--filename=-", stdin=run(*crds, "crds").stdout)
        # The client finds its engine by what is in the home of who calls it.
        home = {"HOME": os.environ["HOME"]}
        with ManagerProcess(
            kubeconfig, folder=tmp_path / "manager", program=program, environ=home
        ) as manager:
            manager.wait_ready()
            who = engine.call("exec", name, "python", "-c", WHO)
            assert who.startswith("65532 65532 ")
            assert "operator-manager" in who, "no shell is before it, so that signals reach it"
            tried = run(engine.tool, "exec", name, "python", "-c", WRITE)
            assert "Read-only file system" in tried.stderr
            assert manager.stop() == 0


@pytest.mark.timeout(2400)
def test_petstore_serves_in_a_container(engine: ContainerEngine, tmp_path: Path):
    with (
        engine.container(engine.image("petstore")) as (_, program),
        PetStoreProcess(tmp_path, "--memory", program=program) as store,
    ):
        assert_keeps_a_pet(store)
        assert store.stop() == 0


@pytest.mark.timeout(2400)
def test_bundle_image_builds_with_package_label(engine: ContainerEngine):
    engine.make("bundle-build", f"BUNDLE_IMG={engine.image('bundle')}")
    labels = engine.settings(engine.image("bundle"))["Labels"]
    assert labels["operators.operatorframework.io.bundle.package.v1"] == "operator-manager"
