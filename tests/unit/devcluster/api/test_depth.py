"""Documents that are nested too deeply are refused, not stored, and take nobody down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from devcluster.api.depth import is_too_deep

if TYPE_CHECKING:
    from tests.unit.devcluster.api.conftest import Api

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def nested(levels: int) -> bytes:
    return b'{"metadata":{"name":"a"},"x":' + b"[" * levels + b"]" * levels + b"}"


def test_breadth_is_no_depth() -> None:
    wide = orjson.dumps({str(number): {"a": [{}]} for number in range(1000)})
    assert not is_too_deep(orjson.loads(wide), wide)
    deep = nested(250)
    assert is_too_deep(orjson.loads(deep), deep)


@pytest.mark.parametrize("levels", [250, 2000])
async def test_a_deep_body_is_a_bad_request(api: Api, levels: int) -> None:
    answer = await api.ask("POST", CONFIG_MAPS, nested(levels))
    assert answer.status == 400
    assert b"exceeded max depth" in answer.body


@pytest.mark.parametrize("levels", [250, 2000])
async def test_a_deep_patch_is_a_bad_request(api: Api, levels: int) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    media = "application/merge-patch+json"
    answer = await api.ask("PATCH", f"{CONFIG_MAPS}/a", nested(levels), media=media)
    assert answer.status == 400
    assert orjson.loads(answer.body)["message"] == "error decoding patch: exceeded max depth"
