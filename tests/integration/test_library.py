"""The library as users install it: its wheel, and another project that uses it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon
from tests.support.eventually import eventually
from tests.support.example_operator import ExampleOperator
from tests.support.ports import PortBlock
from tests.support.tools import output_of
from tests.support.wheels import LIBRARY, build_library, dependencies

# Files of the page, in folders that our project has too.
NEW = ("apis/hello", "controllers/hello", "tests")
MAIN = """
import sys

from controllers.hello.greeting import GreetingOperator
from manager.cli import main

sys.exit(main(sys.argv[1:], (GreetingOperator,), name="greeter", version="1.0"))
"""
TEST = """
from manager_kinds.core_v1 import Pod
from manager.client import connect

pytest_plugins = ["devcluster.pytest_plugin"]


async def test_devcluster_fixture_starts_a_cluster(devcluster, devcluster_namespace):
    async with connect("mine", kubeconfig=str(devcluster.cluster.kubeconfig_path)) as client:
        assert not await client.uncached.list(Pod, namespace=devcluster_namespace)
"""


def done(*command: str | Path, cwd: Path, environ: dict[str, str] | None = None) -> str:
    """Run a command with only the environment variables in `environ`; return the command's output."""
    return output_of(*command, cwd=cwd, environ=environ or {})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with an operator, and an environment with only the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("outside")
    example = ExampleOperator(tmp_path_factory.mktemp("page"))
    for name in NEW:
        shutil.copytree(example.folder / name, folder / name)
    for name in ("apis", "controllers"):
        (folder / name / "__init__.py").touch()
    (folder / "main.py").write_text(MAIN)
    environment = folder / ".venv"
    venv.create(environment, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    here = Path(sysconfig.get_path("purelib"))
    for installed in dependencies(LIBRARY, extra="testing").values():
        for top in {
            path.parts[0] for path in installed.files or () if path.parts[0] not in {"..", "__pycache__"}
        }:
            (packages / top).unlink(missing_ok=True)
            (packages / top).symlink_to(here / top)
    done(
        *(sys.executable, "-m", "uv", "--quiet", "--no-cache", "pip", "install"),
        *(f"--python={environment}/bin/python", "--no-index", "--no-deps", wheel),
        cwd=folder,
    )
    return folder


def python(project: Path) -> Path:
    return project / ".venv" / "bin" / "python"


def test_external_operator_runs_with_only_the_wheel_installed(
    project: Path, control_plane: ControlPlane, namespace: str, run_manager: RunManager
):
    program: Sequence[str | Path] = (python(project), project / "main.py")
    definitions = done(*program, "crds", cwd=project)
    control_plane.kubectl("apply", "--filename=-", stdin=definitions)
    flag = f"--namespaces={namespace}"
    manager = run_manager(control_plane.kubeconfig, flag, program=program).wait_ready()
    greeting = {
        "apiVersion": "hello.example.com/v1",
        "kind": "Greeting",
        "metadata": {"name": "sample", "namespace": namespace},
        "spec": {"text": "hello", "times": 2},
    }
    control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(greeting))

    def said() -> None:
        path = f"/apis/hello.example.com/v1/namespaces/{namespace}/greetings/sample"
        found: dict[str, Any] = control_plane.api.get(path)
        assert found["status"]["said"] == 2

    eventually(said)
    assert manager.stop() == 0
    control_plane.kubectl("delete", "--filename=-", stdin=definitions)


def test_extra_named_testing_lets_another_project_run_its_tests_on_devcluster(project: Path):
    (project / "test_mine.py").write_text(TEST)
    tests = ("test_mine.py", "tests/test_greeting.py")
    output = done(python(project), "-m", "pytest", "-q", "-o", "asyncio_mode=auto", *tests, cwd=project)
    assert "2 passed" in output


@pytest.mark.whole
def test_make_targets_of_new_project_succeed_on_a_cluster(
    project: Path, own_control_plane: StartControlPlane, tmp_path: Path
):
    plane, shop = own_control_plane(), tmp_path / "shop"
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    done(python(project), "-m", "manager", "init", "shop", "--domain=acme.test", cwd=tmp_path)
    programs = shop / ".venv" / "bin"
    programs.mkdir(parents=True)
    (shop / ".venv" / ".current").touch()
    for name, runs in (("shop", "-m controllers.main "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {python(project)} {runs}"$@"\n')
        (programs / name).chmod(0o755)
    make = ("make", "--silent", f"KUBECTL={plane.kubectl_program()}")
    create = ("create", "webhook", "--kind=Greeting", "--defaulting", "--validation", "--conversion=v2")
    done(programs / "shop", *create, cwd=shop)

    done(*make, "install", cwd=shop, environ=environ)
    with PortBlock(2) as ports:
        flags = (
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{ports[0]}",
            "--console-bind-address=0",
            f"--webhook-bind-address=127.0.0.1:{ports[1]}",
            f"--webhook-url=https://127.0.0.1:{ports[1]}",
        )
        command = [*make, "-C", shop, "run", f"ARGS={' '.join(flags)}"]
        running = Daemon("make-run", command, log=tmp_path / "log", environ=environ)
        running.start()
        try:
            greetings = "/apis/hello.acme.test/v2/namespaces/default/greetings"
            sample = yaml.safe_load((shop / "config/samples/hello_v1_greeting.yaml").read_text())
            sample |= {"apiVersion": "hello.acme.test/v2"}

            def is_ready() -> None:
                running.check()
                with contextlib.suppress(ApiFailure):  # no conversion webhook yet
                    plane.api.create(greetings, sample)
                status = plane.api.get(f"{greetings}/greeting-sample")["status"]
                assert [each["status"] for each in status["conditions"]] == ["True"]

            eventually(is_ready)
        finally:
            running.kill()
    done(*make, "uninstall", cwd=shop, environ=environ)
    assert brought_by(plane) == set()

    done(*make, "deploy", "IMG=example.test/shop:1", cwd=shop, environ=environ)
    deployment = plane.api.get("/apis/apps/v1/namespaces/shop-system/deployments/shop-controller-manager")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.test/shop:1"
    assert "--webhook-bind-address=:9443" in container["args"]
    assert {name.partition("/")[0] for name in brought_by(plane)} == set(BROUGHT)
    done(*make, "build-installer", "chart", "IMG=example.test/shop:1", cwd=shop, environ=environ)
    strictly = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    assert plane.kubectl("apply", *strictly, "--filename", shop / "dist/install.yaml").stderr == ""
    assert (shop / "dist/chart/values.schema.json").exists()
    done(*make, "undeploy", cwd=shop, environ=environ)
    assert brought_by(plane) == set()


BROUGHT = {
    "namespaces": "/api/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "mutatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
}


def brought_by(plane: ControlPlane) -> set[str]:
    """Return the project's cluster-scoped objects as `plural/name`."""
    return {
        f"{plural}/{each['metadata']['name']}"
        for plural, path in BROUGHT.items()
        for each in plane.api.get(f"{path}/{plural}")["items"]
        if each["metadata"]["name"].startswith("shop-") or each["metadata"]["name"].endswith(".acme.test")
    }


@pytest.mark.parametrize(
    "package", ["grpc", "google.protobuf", "petstore", "apis.cache", "controllers.cache"]
)
def test_wheel_and_its_dependencies_contain_no_grpc_no_petstore_and_no_sample_operator(
    project: Path, package: str
):
    tried = subprocess.run(
        [python(project), "-I", "-c", f"import {package}"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ModuleNotFoundError" in tried.stderr
