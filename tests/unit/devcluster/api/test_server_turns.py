"""Requests about many objects let other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tests.unit.devcluster.api.conftest import CONFIG_MAPS, TABLE, Api, config_map

MANY = 1200


async def turns_of_others(work: Awaitable[object]) -> int:
    """Return how often another task gets its turn during `work`."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = turns
    await work
    task.cancel()
    return turns - before


@pytest.mark.parametrize(
    ("method", "query", "accept", "least"),
    [
        ("DELETE", "", "", MANY),
        ("GET", "", TABLE, 2),
        ("GET", "", "application/yaml", 1),
        ("GET", "?fieldSelector=metadata.name!=x", "", 2),
    ],
)
async def test_request_for_many_objects_yields_to_other_requests(
    api: Api, method: str, query: str, accept: str, least: int
):
    for number in range(MANY):
        await api.expect(201, "POST", CONFIG_MAPS, config_map(f"c{number}"))
    assert await turns_of_others(api.ask(method, CONFIG_MAPS + query, accept=accept)) >= least


async def test_watch_with_a_selector_yields_to_other_requests_before_its_first_event(api: Api):
    for number in range(MANY):
        await api.expect(201, "POST", CONFIG_MAPS, config_map(f"c{number}"))
    watch = await api.watch(
        f"{CONFIG_MAPS}?watch=true&labelSelector=not-there&resourceVersion=0&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    )
    assert await turns_of_others(watch.next()) >= 2


async def test_openapi_document_of_all_kinds_yields_to_other_requests(api: Api):
    assert await turns_of_others(api.expect(200, "GET", "/openapi/v2")) >= 1
