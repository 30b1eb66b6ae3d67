"""Tests of an operator's author, on devcluster and on a real API server (`--control-plane`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.envtest import VARIABLE, why_not

AUTHORS = '''
from __future__ import annotations

import asyncio

import pytest
from pydantic import Field

from manager import Context, Operator, webhook
from manager.api import ApiModel, ObjectMeta, Resource, Status, crd
from manager_kinds.core_v1 import ConfigMap, Secret
from manager.client import connect
from manager.kube.errors import Forbidden
from manager_tools.testing import operated
from manager.webhook import AdmissionRequest, JsonObject


class SwitchSpec(ApiModel):
    """What is wanted."""

    on: bool = True
    """Whether the ConfigMap is there."""
    words: str = ""
    """What is in it."""


class SwitchStatus(Status, conditions={"Ready": "all is as wanted"}):
    """What is there."""


@crd()
class Switch(Resource, group="demo.example.com", version="v1", plural="switches"):
    """A ConfigMap, or none."""

    spec: SwitchSpec = Field(default_factory=SwitchSpec)
    """What is wanted."""
    status: SwitchStatus = Field(default_factory=SwitchStatus)
    """What is there."""


class SwitchOperator(Operator[Switch]):
    owns = (ConfigMap,)

    async def reconcile(self, switch: Switch, ctx: Context) -> None:
        named = ObjectMeta(name=switch.metadata.name, namespace=switch.metadata.namespace)
        if switch.spec.on:
            await ctx.apply(ConfigMap(metadata=named, data={"words": switch.spec.words}))
        else:
            for child in await ctx.children(ConfigMap):
                await ctx.delete(child)
        switch.metadata.annotations["seen"] = "yes"
        await ctx.patch()
        ctx.condition("Ready", True, "AsWanted", event="Normal")

    async def cleanup(self, switch: Switch, ctx: Context) -> None:
        """Nothing is outside."""

    @webhook.default
    async def fill_in(self, switch: JsonObject, _: AdmissionRequest) -> None:
        switch["spec"]["words"] = switch["spec"].get("words") or "hello"


class Peeks(Operator[Switch]):
    async def reconcile(self, switch: Switch, ctx: Context) -> None:
        await ctx.client.uncached.find(Secret, switch.key)


@pytest.mark.parametrize("time", [1, 2])
async def test_switch(time: int) -> None:
    async with operated(SwitchOperator, objects=[Switch(metadata=ObjectMeta(name="early"))]) as world:
        switch = await world.create(Switch(metadata=ObjectMeta(name="a")))
        assert switch.spec.words == "hello"
        await world.until(switch, lambda it: it.status.conditions and it.metadata.annotations)
        assert (await world.get(ConfigMap, "a")).data == {"words": "hello"}
        await world.update(switch, lambda it: setattr(it.spec, "on", False))
        while await world.find(ConfigMap, "a") is not None:
            await asyncio.sleep(0.02)
        assert "Ready" not in await world.events(switch)
        assert "AsWanted" in await world.events(switch)
        await world.delete(switch)
        await world.until_gone(switch)


async def test_right() -> None:
    async with operated(Peeks) as world:
        switch = await world.create(Switch(metadata=ObjectMeta(name="a")))
        switch = await world.until(switch, lambda it: it.status.conditions)
        [condition] = switch.status.conditions
        assert "test_authors.py:64 asks" in condition.message, condition.message
        assert 'rbac(groups="", resources="secrets", verbs="get")' in condition.message


async def test_devcluster_alone() -> None:
    async with operated(kinds=(Switch,)) as world:
        world.cluster.store


async def test_fixtures(cluster_kubeconfig, cluster_namespace, manager_kubeconfig) -> None:
    async with connect("me", kubeconfig=str(cluster_kubeconfig)) as client:
        named = ObjectMeta(name="a", namespace=cluster_namespace)
        await client.create(Secret(metadata=named))
    async with connect("me", kubeconfig=str(manager_kubeconfig(SwitchOperator))) as client:
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
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        *flags,
        "test_authors.py",
    ]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=150, check=False
    )


def test_author_tests_pass_on_devcluster(tmp_path: Path):
    done = run(tmp_path)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_author_tests_pass_on_a_real_api_server(tmp_path: Path):
    done = run(tmp_path, "--control-plane=envtest")
    assert "4 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "world.cluster is devcluster" in done.stdout


def test_control_plane_option_says_in_one_line_what_is_missing(tmp_path: Path):
    done = run(tmp_path, "--control-plane=envtest", **{VARIABLE: None})
    assert done.returncode == 4
    assert f"--control-plane=envtest: {VARIABLE} is not set" in done.stderr
    assert "Traceback" not in done.stderr
