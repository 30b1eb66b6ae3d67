"""An operator's tests, run by pytest with `--control-plane` on devcluster and on a real API server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from manager_tools.envtest import CannotStart, Envtest
from tests.support.envtest import VARIABLE, why_not

AUTHORS = '''
from __future__ import annotations

import asyncio

import pytest

from manager import Context, Operator, webhook
from manager.api import ObjectMeta
from manager.client import connect
from manager.kube.errors import Forbidden
from manager.webhook import AdmissionRequest, JsonObject
from manager_kinds.core_v1 import ConfigMap, Secret
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.testing import VirtualClock, operated


class GreetingOperator(Operator[Greeting]):
    owns = (ConfigMap,)

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        named = ObjectMeta(name=greeting.metadata.name, namespace=greeting.metadata.namespace)
        if greeting.spec.size:
            await ctx.apply(ConfigMap(metadata=named, data={"size": str(greeting.spec.size)}))
        else:
            for child in await ctx.children(ConfigMap):
                await ctx.delete(child)
        greeting.metadata.annotations["seen"] = "yes"
        await ctx.patch()
        ctx.condition("Ready", True, "AsWanted", event="Normal")

    async def cleanup(self, greeting: Greeting, ctx: Context) -> None:
        """Nothing is outside."""

    @webhook.default
    async def fill_in(self, greeting: JsonObject, _: AdmissionRequest) -> None:
        greeting["metadata"].setdefault("annotations", {})["by"] = "default"


@pytest.mark.parametrize("time", [1, 2])
async def test_greeting(time: int) -> None:
    async with operated(GreetingOperator, objects=[Greeting(metadata=ObjectMeta(name="early"))]) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="a")))
        assert greeting.metadata.annotations["by"] == "default"
        await world.until(greeting, lambda it: it.status.conditions and "seen" in it.metadata.annotations)
        assert (await world.get(ConfigMap, "a")).data == {"size": "1"}
        await world.update(greeting, lambda it: setattr(it.spec, "size", 0))
        while await world.find(ConfigMap, "a") is not None:
            await asyncio.sleep(0.02)
        assert "Ready" not in await world.events(greeting)
        assert "AsWanted" in await world.events(greeting)
        await world.delete(greeting)
        await world.until_gone(greeting)


async def test_devcluster_alone() -> None:
    async with operated(kinds=(Greeting,)) as world:
        world.cluster.store


@pytest.fixture
async def timed():
    async with operated(kinds=(Greeting,), clock=VirtualClock()) as world:
        yield world


async def test_virtual_time(timed) -> None:
    """It needs devcluster."""


async def test_fixtures(cluster_kubeconfig, cluster_namespace, manager_kubeconfig) -> None:
    async with connect("me", kubeconfig=str(cluster_kubeconfig)) as client:
        named = ObjectMeta(name="a", namespace=cluster_namespace)
        await client.create(Secret(metadata=named))
    async with connect("me", kubeconfig=str(manager_kubeconfig(GreetingOperator))) as client:
        await client.uncached.list(ConfigMap)
        with pytest.raises(Forbidden):
            await client.uncached.get(Secret, Secret(metadata=named).key)
'''


def run(folder: Path, *flags: str, **environ: str | None) -> subprocess.CompletedProcess[str]:
    (folder / "test_authors.py").write_text(AUTHORS.lstrip())
    options = (
        "-p manager_tools.pytest_plugin\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    )
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {options}\n")
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    for name, value in environ.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *flags]
    return subprocess.run(
        [*command, "test_authors.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_operator_tests_pass_on_devcluster(tmp_path: Path):
    done = run(tmp_path)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_operator_tests_pass_on_a_real_api_server(tmp_path: Path):
    done = run(tmp_path, "--control-plane=envtest")
    assert "3 passed, 2 skipped" in done.stdout, done.stdout + done.stderr
    assert "world.cluster is devcluster" in done.stdout


def test_control_plane_option_error_names_the_unset_environment_variable_without_a_traceback(tmp_path: Path):
    done = run(tmp_path, "--control-plane=envtest", **{VARIABLE: None})
    assert done.returncode == 4
    assert f"--control-plane=envtest: {VARIABLE} is not set" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """Return a folder with the programs of a control plane, which cannot be executed."""
    folder = tmp_path / "assets"
    folder.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (folder / name).touch()
    return folder


def test_control_plane_option_skips_a_test_whose_fixture_needs_devcluster(tmp_path: Path, assets: Path):
    done = run(tmp_path, "--control-plane=envtest", "-k=virtual_time", **{VARIABLE: str(assets)})
    assert "1 skipped" in done.stdout, done.stdout + done.stderr
    assert "a real API server has a clock of its own" in done.stdout


def test_envtest_removes_its_folder_and_raises_cannot_start_when_a_program_is_not_executable(
    tmp_path: Path, assets: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with pytest.raises(CannotStart, match="etcd cannot be started: Permission denied"):
        Envtest({VARIABLE: str(assets)}).start()
    assert list((tmp_path / "scratch").iterdir()) == []
