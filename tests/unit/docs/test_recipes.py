"""Recipes of docs/recipes.md that need a clock, a script or a request; tests/integration runs the others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from devcluster.api.pod_sessions import Process
from manager.api import ObjectMeta
from manager_kinds.core_v1 import Pod, Secret
from manager_tools.testing import VirtualClock, operated
from tests.support.markdown import code_of, import_from

PAGE = Path("docs/recipes.md")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    sources = {"page_of_recipes": code_of(PAGE, "recipes.py")}
    return import_from(tmp_path_factory.mktemp("recipes"), sources)[0]


def app(page: Any, recipe: str, **spec: Any) -> Any:
    metadata = ObjectMeta(name="a", namespace="default", labels={"recipe": recipe})
    return page.App(metadata=metadata, spec=page.AppSpec(**spec))


def ready(obj: Any) -> tuple[str, str]:
    """Return status and reason of the condition Ready; two empty texts if there is none."""
    found = [(each.status, each.reason) for each in obj.status.conditions if each.type == "Ready"]
    return found[0] if found else ("", "")


async def test_password_recipe_replaces_the_password_once_a_month(page: Any):
    clock = VirtualClock()
    async with operated(page.Keeping, clock=clock) as world:
        obj = await world.create(app(page, "secret"))
        await world.until(obj, lambda it: ready(it) == ("True", "PasswordMade"))
        first = await world.get(Secret, "a")
        made = {page.MADE: (clock.now() - timedelta(days=29, hours=23)).isoformat()}
        await world.update(first, lambda it: it.metadata.annotations.update(made))
        await world.update(obj, lambda it: setattr(it.spec, "text", "other"))
        await clock.advance(minutes=50)
        assert (await world.get(Secret, "a")).data == first.data
        await clock.advance(minutes=20)
        second = (await world.get(Secret, "a")).data
        assert second != first.data
        await clock.advance(days=1)
        assert (await world.get(Secret, "a")).data == second


async def test_waiting_recipe_polls_the_external_operation_until_it_is_done(page: Any):
    page.OPERATIONS.clear()
    async with operated(page.Waiting, clock=VirtualClock()) as world:
        obj = await world.create(app(page, "operation"))
        obj = await world.until(obj, lambda it: it.status.result == "done")
        assert {obj.status.operation: 3} == page.OPERATIONS


async def test_callback_recipe_writes_the_http_report_of_another_program_into_the_status(page: Any):
    async with operated(page.Called, clock=VirtualClock()) as world:
        obj = await world.create(app(page, "callback"))
        await world.until(obj, lambda it: ready(it) == ("False", "Waiting"))
        operator = page.Called(world.manager)

        async def call(name: str) -> int:
            request = make_mocked_request(
                "POST", f"/called/default/{name}", match_info={"namespace": "default", "name": name}
            )
            request._read_bytes = b"well"  # set the body as if the request had been read
            return int((await operator.called(request)).status)

        assert await call("b") == 404
        assert await call("a") == 202
        await world.until(obj, lambda it: (it.status.result, ready(it)) == ("well", ("True", "Called")))


async def test_backup_recipe_runs_the_backup_command_once_per_spec_change(page: Any):
    commands: list[list[str]] = []

    async def back_up(process: Process) -> int:
        commands.append(list(process.command))
        await process.write(b"42 rows")
        return 1 if process.command[-1] == "full" else 0

    async with operated(page.BackedUp, clock=VirtualClock()) as world:
        world.cluster.sessions.exec = back_up
        spec = {"containers": [{"name": "app", "image": "app:1"}]}
        await world.create(Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=spec))
        obj = await world.create(app(page, "backup", text="disk"))
        await world.until(obj, lambda it: (it.status.result, ready(it)) == ("42 rows", ("True", "BackedUp")))
        await world.update(obj, lambda it: it.metadata.annotations.update(a="b"))
        await world.update(obj, lambda it: setattr(it.spec, "text", "full"))
        await world.until(obj, lambda it: ready(it) == ("False", "BackupFailed"))
    assert commands == [["backup", "--to", "disk"], ["backup", "--to", "full"]]
