"""Field management where a webhook converts: what it needs is fetched, as often as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from devcluster.api.field_versions import with_versions
from devcluster.errors import StatusError
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Strategy
from devcluster.patch.shape import Untypable
from devcluster.schema.node import Schema

if TYPE_CHECKING:
    from devcluster.patch import Convert

OBJECT = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}, "spec": {"size": 1}}


def resource(convert: Any) -> Resource:
    made = Resource(
        group="example.com",
        version="v1",
        kind="Thing",
        plural="things",
        singular="thing",
        list_kind="ThingList",
        schema=Schema(),
        strategy=Strategy(),
        storage_version="v1",
        convert=convert,
        custom=True,
    )
    made.schemas = {"example.com/v1": Schema(), "example.com/v2": Schema()}
    return made


async def test_a_step_is_taken_again_with_what_it_asked_for() -> None:
    asked = []

    async def webhook(objects: list[Any], wanted: str) -> list[Any]:
        asked.append(wanted)
        return [{**each, "apiVersion": wanted, "spec": {"count": each["spec"]["size"]}} for each in objects]

    def step(convert: Convert) -> Any:
        first, second = convert(OBJECT, "example.com/v2"), convert(OBJECT, "example.com/v2")
        assert first is not None
        assert second is not None
        assert convert(OBJECT, "example.com/v9") is None
        return first[0]["spec"], second[0]["spec"]

    assert await with_versions(resource(webhook), step) == ({"count": 1}, {"count": 1})
    assert asked == ["example.com/v2"]


async def down(_objects: list[Any], _wanted: str) -> list[Any]:
    raise StatusError(500, "", "no")


async def test_what_cannot_be_converted_cannot_be_typed() -> None:
    def step(convert: Convert) -> str:
        with pytest.raises(Untypable):
            convert(OBJECT, "example.com/v2")
        return "goes on without"

    # As an update does; it is asked a second time, with what came of the first.
    calls = 0

    def counted(convert: Convert) -> str:
        nonlocal calls
        calls += 1
        return step(convert) if calls > 1 else str(convert(OBJECT, "example.com/v2"))

    assert await with_versions(resource(down), counted) == "goes on without"


async def test_a_step_that_needs_what_cannot_be_converted_fails_as_the_webhook_did() -> None:
    with pytest.raises(StatusError, match="no"):
        await with_versions(resource(down), lambda convert: convert(OBJECT, "example.com/v2"))
