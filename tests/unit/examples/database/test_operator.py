"""examples/database: upgrades in eight steps, one pod at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from examples.database.kinds import Database, DatabaseSpec, Job, StatefulSet
from examples.database.operator import LABEL, DatabaseOperator, is_ready
from manager.api import ObjectMeta
from manager_kinds.core_v1 import ConfigMap, Pod
from manager_tools.simulation import assert_holds
from manager_tools.testing import VirtualClock, World, operated

STEPS = ["Check", "BackUp", "StopWrites", "Prepare", "ReplacePods", "Migrate", "AllowWrites", "Finish"]


def database(version: str = "15", replicas: int = 3) -> Database:
    return Database(metadata=ObjectMeta(name="a"), spec=DatabaseSpec(version=version, replicas=replicas))


def upgraded_to(version: str) -> Callable[[Database], bool]:
    def is_upgraded(it: Database) -> bool:
        upgrade, wanted = it.status.upgrade, {"spec.version": version}
        return (upgrade.state, upgrade.target, it.status.ready) == ("Succeeded", wanted, 3)

    return is_upgraded


def at_step(step: str) -> Callable[[Database], bool]:
    return lambda it: (it.status.upgrade.step, it.status.upgrade.state) == (step, "Running")


def set_version(version: str) -> Callable[[Database], None]:
    return lambda it: setattr(it.spec, "version", version)


async def pods_of(world: World) -> list[Pod]:
    return list(await world.client.uncached.list(Pod, namespace="default", labels=LABEL))


async def images(world: World) -> list[str]:
    return sorted(each.spec["containers"][0]["image"] for each in await pods_of(world))


async def upgrading(world: World, version: str) -> Database:
    """Create a database of version 15, wait until it is ready, and begin an upgrade to `version`."""
    mine = await world.until(await world.create(database()), upgraded_to("15"), timeout=600)
    return await world.update(mine, set_version(version))


async def test_database_upgrade_replaces_one_pod_at_a_time_and_forbids_writes_meanwhile() -> None:
    async with operated(DatabaseOperator, clock=VirtualClock(), pod_ready_delay=5) as world:
        mine = await world.until(await world.create(database()), upgraded_to("15"), timeout=600)
        ready, steps, writable = set(), [], {}

        async def look() -> None:
            while True:
                ready.add(sum(map(is_ready, await pods_of(world))))
                upgrade = (await world.get(Database, "a")).status.upgrade
                steps.append(upgrade.step)
                writable[upgrade.step] = (await world.get(ConfigMap, "a")).data
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            looking = group.create_task(look())
            await world.update(mine, set_version("16"))
            mine = await world.until(mine, upgraded_to("16"), timeout=600)
            looking.cancel()
        assert ready == {2, 3}
        assert await images(world) == ["database:16"] * 3
        assert [each for each in dict.fromkeys(steps) if each != "Finish"] == [
            each for each in STEPS if each in steps and each != "Finish"
        ]
        assert writable["ReplacePods"] == writable["Migrate"] == {"WRITABLE": "false"}
        assert (await world.get(ConfigMap, "a")).data == {"WRITABLE": "true"}
        assert list(await world.client.uncached.list(Job, namespace="default")) == []
        events = await world.events(mine)
        assert events[0] == "UpgradeStarted"
        assert events[-1] == "UpgradeSucceeded"


async def test_database_conditions_name_the_current_step_of_the_upgrade() -> None:
    async with operated(DatabaseOperator, clock=VirtualClock(), pod_ready_delay=5) as world:
        mine = await upgrading(world, "16")
        replaced = "1 of 3 pods are replaced, 2 ready"
        mine = await world.until(mine, lambda it: it.status.upgrade.message == replaced, timeout=600)
        progressing = next(each for each in mine.status.conditions if each.type == "Progressing")
        assert (progressing.status, progressing.reason) == ("True", "ReplacePods")
        assert progressing.message == f"5/8: {replaced}"
        assert mine.status.upgrade.changes == {"spec.version": ("15", "16")}


@pytest.mark.parametrize("step", ["Check", "BackUp", "ReplacePods", "Migrate"])
@pytest.mark.parametrize("version", ["15", "17"])
async def test_database_upgrade_restarts_when_the_version_changes_again(step: str, version: str) -> None:
    async with operated(DatabaseOperator, clock=VirtualClock(), pod_ready_delay=5) as world:
        mine = await upgrading(world, "16")
        mine = await world.until(mine, at_step(step), timeout=600)
        mine = await world.update(mine, set_version(version))
        generation = mine.metadata.generation
        done = lambda it: upgraded_to(version)(it) and it.status.upgrade.generation == generation  # noqa: E731
        mine = await world.until(mine, done, timeout=600)
        assert await images(world) == [f"database:{version}"] * 3
        assert list(await world.client.uncached.list(Job, namespace="default")) == []
        assert "UpgradeRestarted" in await world.events(mine)


async def test_database_upgrade_fails_and_replaces_no_pod_when_the_check_job_hangs() -> None:
    async with operated(DatabaseOperator, clock=VirtualClock(), pod_ready_delay=5) as world:
        mine = await upgrading(world, "16-never-ready")
        mine = await world.until(mine, lambda it: it.status.upgrade.state == "Failed", timeout=400)
        assert mine.status.upgrade.message == "Check took longer than 300 s: waits for Job a-check-2"
        assert await images(world) == ["database:15"] * 3


async def test_database_upgrade_fails_when_pods_stay_unready_and_can_return_to_the_old_version() -> None:
    clock, never = VirtualClock(), {"devcluster.local/never-ready": "true"}
    async with operated(DatabaseOperator, clock=clock, pod_ready_delay=5) as world:
        mine = await upgrading(world, "16")
        servers = await world.get(StatefulSet, "a")
        await world.until(mine, at_step("BackUp"))
        await world.update(servers, lambda it: it.spec["template"]["metadata"].update(annotations=never))
        mine = await world.until(mine, lambda it: it.status.upgrade.state == "Failed", timeout=3000)
        late = "ReplacePods took longer than 1800 s: 1 of 3 pods are replaced, 2 ready"
        assert mine.status.upgrade.message == late
        assert (await world.events(mine))[-1] == "UpgradeFailed"
        degraded = next(each for each in mine.status.conditions if each.type == "Degraded")
        assert (degraded.status, degraded.reason) == ("True", "UpgradeFailed")
        await clock.advance(hours=1)
        assert (await world.get(Database, "a")).status.upgrade == mine.status.upgrade
        await world.update(servers, lambda it: it.spec["template"]["metadata"].pop("annotations"))
        await world.update(mine, set_version("15"))
        mine = await world.until(mine, upgraded_to("15"), timeout=600)
        assert await images(world) == ["database:15"] * 3
        assert (await world.get(ConfigMap, "a")).data == {"WRITABLE": "true"}


def test_database_operator_recovers_from_simulated_faults() -> None:
    assert_holds(DatabaseOperator, seeds=range(2), samples=[database("15"), database("16", 1)])
