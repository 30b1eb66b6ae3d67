"""The operators' pods start: the simulated kubelet knows the programs of their images."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached, MemcachedSpec
from apis.example.v1.wordpress import Wordpress
from controllers.cache.memcached import MemcachedOperator
from controllers.example.wordpress import WordpressOperator
from controllers.example.workloads import Workloads
from manager.api import ObjectMeta, is_true
from manager_kinds.apps_v1 import Deployment
from manager_tools.testing import World, operated
from tests.unit.controllers.example.sites import site

pytestmark = pytest.mark.virtual_time


def memcached(**spec: Any) -> Memcached:
    return Memcached(metadata=ObjectMeta(name="m"), spec=MemcachedSpec(size=1, **spec))


def containers(world: World, prefix: str) -> list[dict[str, Any]]:
    """Return the statuses of the containers of pods with such a name."""
    return [
        each
        for pod in world.cluster.client.list("pods")
        if pod["metadata"]["name"].startswith(prefix)
        for each in pod["status"].get("containerStatuses", ())
    ]


async def test_memcached_pods_are_ready():
    async with operated(MemcachedOperator) as world:
        found = await world.create(memcached())
        await world.until(found, lambda it: it.status.ready_replicas == 1)
        assert [each["restartCount"] for each in containers(world, "m-")] == [0]


async def test_memcached_pods_crash_loop_when_the_memory_limit_is_read_as_zero():
    class Joined(MemcachedOperator):
        name = MemcachedOperator.name

        def deployment(self, memcached: Memcached) -> Deployment:
            deployment = super().deployment(memcached)
            [container] = deployment.spec["template"]["spec"]["containers"]
            container["command"] = ["memcached", "-m=64", "-o", "modern", "-v"]
            return deployment

    async with operated(Joined) as world:
        await world.create(memcached())
        await asyncio.sleep(60)
        [container] = containers(world, "m-")
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 64
        assert (await world.get(Memcached, "m")).status.ready_replicas == 0


async def test_wordpress_pods_are_ready():
    async with operated(WordpressOperator) as world:
        created = await world.create(site())
        await world.until(created, lambda it: is_true(it.status.conditions, "Available"))
        assert [each["restartCount"] for each in containers(world, created.metadata.name)] == [0, 0]


async def test_wordpress_pods_are_never_ready_when_the_probe_is_redirected_to_https_at_the_pod():
    class Redirected(Workloads):
        def frontend(self, site: Wordpress) -> Deployment:
            deployment = super().frontend(site)
            [container] = deployment.spec["template"]["spec"]["containers"]
            container["readinessProbe"]["httpGet"] = {
                "path": "/wp-login.php",
                "port": "http",
                "httpHeaders": [{"name": "X-Forwarded-Proto", "value": "https"}],
            }
            return deployment

    class Operator(WordpressOperator):
        name = WordpressOperator.name

        def setup(self) -> None:
            super().setup()
            self.workloads = Redirected(
                program="test", mysql_image=self.mysql_image, wordpress_image=self.wordpress_image
            )

    async with operated(Operator) as world:
        created = await world.create(site())
        await asyncio.sleep(120)
        ready = {each["name"]: each["ready"] for each in containers(world, created.metadata.name)}
        assert ready == {"mysql": True, "wordpress": False}
        messages = [each["message"] for each in world.cluster.client.list("events")]
        assert any("server gave HTTP response to HTTPS client" in each for each in messages)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("image", "memcached:no-such-image", "ImagePullBackOff"),
        ("image", "Memcached:1", "InvalidImageName"),
    ],
)
async def test_memcached_pods_do_not_start_when_the_image_is_wrong(field: str, value: str, reason: str):
    async with operated(MemcachedOperator) as world:
        await world.create(memcached(**{field: value}))
        await asyncio.sleep(5)
        [container] = containers(world, "m-")
        assert container["state"]["waiting"]["reason"] == reason
