"""Long requests let other asyncio tasks run in between."""

from __future__ import annotations

import pytest

from tests.support.effort import turns_of_others
from tests.unit.devcluster.api.conftest import CONFIG_MAPS, TABLE, Api, config_map

MANY = 1200
NO_MATCH = (
    "watch=true&labelSelector=not-there&resourceVersion=0&allowWatchBookmarks=true"
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
)


@pytest.fixture
async def filled(api: Api) -> Api:
    for number in range(MANY):
        await api.expect(201, "POST", CONFIG_MAPS, config_map(f"c{number}"))
    return api


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
    filled: Api, method: str, query: str, accept: str, least: int
):
    assert await turns_of_others(filled.ask(method, CONFIG_MAPS + query, accept=accept)) >= least


async def test_watch_with_a_selector_yields_to_other_requests_before_its_first_event(filled: Api):
    watch = await filled.watch(f"{CONFIG_MAPS}?{NO_MATCH}")
    assert await turns_of_others(watch.next()) >= 2


async def test_request_for_the_openapi_document_of_all_kinds_yields_to_other_requests(api: Api):
    assert await turns_of_others(api.expect(200, "GET", "/openapi/v2")) >= 1
