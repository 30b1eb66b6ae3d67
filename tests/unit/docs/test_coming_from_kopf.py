"""The operators of docs/coming-from-kopf.md behave as the page describes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from manager.api import ObjectMeta
from manager_kinds.core_v1 import ConfigMap, Pod
from manager_tools.testing import VirtualClock, operated
from tests.support.markdown import code_of, import_from
from tests.support.tools import output_of
from tests.unit.docs.test_recipes import ready

pytestmark = pytest.mark.virtual_time
PAGE = Path("docs/coming-from-kopf.md")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    texts = {name: code_of(PAGE, f"{name}.py") for name in ("devices", "test_devices")}
    renamed = ("from devices", "from page_of_kopf_devices")
    sources = {f"page_of_kopf_{name}": text.replace(*renamed) for name, text in texts.items()}
    devices, tests = import_from(tmp_path_factory.mktemp("kopf"), sources)
    return type("Page", (), {**vars(devices), "tests": tests})


def device(page: Any, name: str = "a", address: str = "here", volume: int = 1, **metadata: Any) -> Any:
    spec = page.DeviceSpec(address=address, volume=volume)
    return page.Device(metadata=ObjectMeta(name=name, namespace="default", **metadata), spec=spec)


async def test_example_operator_passes_the_test_that_the_page_shows(page: Any):
    await page.tests.test_registered_keeps_configmap_and_entry()


async def test_example_operator_copies_the_volume_from_spec_to_status(page: Any):
    async with operated(page.Louder) as world:
        obj = await world.create(device(page, volume=3))
        await world.until(obj, lambda it: it.status.volume == 3, timeout=10)
        await world.update(obj, lambda it: setattr(it.spec, "volume", 1))
        await world.until(obj, lambda it: it.status.volume == 1, timeout=10)


async def test_example_operator_waits_for_an_unregistered_device_but_fails_for_an_invalid_address(page: Any):
    async with operated(page.Careful) as world:
        good = await world.create(device(page, "good"))
        bad = await world.create(device(page, "bad", address="over there"))
        await world.until(good, lambda it: ready(it) == ("False", "NotRegistered"))
        await world.until(bad, lambda it: ready(it) == ("False", "TerminalError"))
        page.REGISTRY["good"] = "here"
        await world.until(good, lambda it: ready(it) == ("True", "Registered"), timeout=40)
        page.REGISTRY.clear()


async def test_example_operator_stops_after_three_failed_attempts_until_the_spec_changes(page: Any):
    async with operated(page.Patient) as world:
        obj = await world.create(device(page))
        await world.until(obj, lambda it: (it.status.attempts, *ready(it)) == (1, "False", "NotRegistered"))
        await world.until(
            obj, lambda it: (it.status.attempts, *ready(it)) == (3, "False", "GaveUp"), timeout=70
        )
        page.REGISTRY["a"] = "here"
        await world.update(obj, lambda it: it.metadata.labels.update(looked="again"))
        await asyncio.sleep(60)
        assert ready(await world.get(page.Device, "a")) == ("False", "GaveUp")
        await world.update(obj, lambda it: setattr(it.spec, "volume", 2))
        await world.until(obj, lambda it: (it.status.attempts, *ready(it)) == (0, "True", "Registered"))
        page.REGISTRY.clear()


async def test_status_changes_are_stored_after_a_blocked_error_but_lost_after_a_terminal_error(page: Any):
    errors = {"a": page.Blocked("No", "no"), "b": page.TerminalError("no"), "c": page.TerminalError("no")}

    class Failing(page.Operator[page.Device]):
        kind = page.Device

        async def reconcile(self, obj: Any, ctx: Any) -> None:
            obj.status.attempts += 1
            if obj.metadata.name == "c":
                await ctx.write_status()
            raise errors[obj.metadata.name]

    async with operated(Failing) as world:
        for name, reason, written in (("a", "No", 1), ("b", "TerminalError", 0), ("c", "TerminalError", 1)):
            obj = await world.create(device(page, name))
            obj = await world.until(obj, lambda it, reason=reason: ready(it) == ("False", reason))
            assert obj.status.attempts == written, name


async def test_example_operator_increases_the_level_every_7_seconds_and_resets_it_every_minute(page: Any):
    async with operated(page.Measuring) as world:
        obj = await world.create(device(page))
        levels = []
        for _ in range(200):
            await asyncio.sleep(1)
            levels.append((await world.get(page.Device, "a")).status.level)
        assert max(levels) in {7, 8, 9}
        assert levels.count(0) > 10, "calibrate() resets the level every minute"
        await world.delete(obj)
        await world.until_gone(obj)


async def test_example_operator_reports_a_device_with_the_address_of_another_device(page: Any):
    async with operated(page.Exclusive) as world:
        first = await world.create(device(page, "first"))
        await world.until(first, lambda it: ready(it) == ("True", "AddressFree"))
        second = await world.create(device(page, "second"))
        await world.until(second, lambda it: ready(it) == ("False", "AddressTaken"))
        await world.update(second, lambda it: setattr(it.spec, "address", "there"))
        await world.until(second, lambda it: ready(it) == ("True", "AddressFree"))


async def test_example_operator_ignores_devices_that_are_paused_or_not_loud_or_lack_a_floor_label(page: Any):
    async with operated(page.Loud) as world:
        loud = await world.create(device(page, "loud", volume=9, labels={"floor": "2"}))
        paused = device(page, "paused", volume=9, labels={"floor": "2"}, annotations={"pause": ""})
        quiet = await world.create(device(page, "quiet", labels={"floor": "2"}))
        for each in (paused, device(page, "elsewhere", volume=9)):
            await world.create(each)
        await world.until(loud, lambda it: ready(it) == ("True", "Loud"))
        await asyncio.sleep(5)
        for name in ("paused", "quiet", "elsewhere"):
            assert (await world.get(page.Device, name)).status.conditions == []
        await world.update(quiet, lambda it: setattr(it.spec, "volume", 8))
        await world.until(quiet, lambda it: ready(it) == ("True", "Loud"))


async def test_example_operator_updates_the_pod_count_when_a_pod_is_created_or_deleted(page: Any):
    async with operated(page.Counted) as world:
        obj = await world.create(device(page))
        spec = {"containers": [{"name": "web", "image": "web"}]}
        metadata = ObjectMeta(name="web", namespace="default", labels={"device": "a"})
        pod = await world.create(Pod(metadata=metadata, spec=spec))
        await world.until(obj, lambda it: it.status.level == 1)
        await world.delete(pod)
        await world.until(obj, lambda it: it.status.level == 0)


async def test_example_operator_copies_the_level_from_the_configmap_after_each_change(page: Any):
    async with operated(page.Configured) as world:
        obj = device(page)
        obj.spec.settings = "common"
        obj = await world.create(obj)
        await world.until(obj, lambda it: ready(it) == ("False", "NoSettings"))
        config = await world.create(ConfigMap(metadata=ObjectMeta(name="common"), data={"level": "3"}))
        await world.until(obj, lambda it: it.status.level == 3)
        await world.update(config, lambda it: it.data.update(level="4"))
        await world.until(obj, lambda it: (it.status.level, *ready(it)) == (4, "True", "Configured"))


async def test_example_operator_polls_the_http_service_of_the_device(page: Any):
    levels = iter("567")

    async def level(_: web.BaseRequest) -> web.Response:
        return web.Response(text=next(levels))

    services = {"http://here.default.svc:80": level}
    async with operated(page.Connected, clock=VirtualClock(), services=services) as world:
        obj = await world.create(device(page, address="here.default.svc"))
        await world.until(obj, lambda it: it.status.level == 5)
        await world.until(obj, lambda it: it.status.level == 6, timeout=90)


def test_kopf_page_program_prints_the_device_crd(tmp_path: Path):
    (tmp_path / "devices.py").write_text(code_of(PAGE, "devices.py"))
    assert "name: devices.example.com" in output_of(sys.executable, tmp_path / "devices.py", "crds")


async def test_example_webhooks_trim_the_address_of_a_device_and_refuse_an_empty_address(page: Any):
    async with operated(page.Checked) as world:
        with pytest.raises(Exception, match=r'spec\.address: Invalid value: "": must not be empty'):
            await world.create(device(page, "empty", address=" "))
        trimmed = await world.create(device(page, address=" here "))
        assert trimmed.spec.address == "here"
