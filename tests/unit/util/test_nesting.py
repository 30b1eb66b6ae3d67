"""Nesting limit of JSON and YAML; it does not depend on the depth of the caller's stack."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import ObjectKey
from manager.cache.record import RecordDecoder
from manager.client.reader import decode_at_once
from manager.kube.decoding import Decoder, decode_list, json_object
from manager.kube.errors import status_error
from manager.server.access import claims_of
from manager.util import yaml_text
from manager.util.nesting import MOST_LEVELS, is_too_deep
from manager_kinds.core_v1 import Pod
from manager_tools.simulation.plan import Plan

T = TypeVar("T")
DEEP = [MOST_LEVELS + 1, 300, 990, 1_000, 1_100, 5_000, 50_000]
STACKS = [0, 500]


class Named(msgspec.Struct):
    name: str


def at(frames: int, call: Callable[[], T]) -> T:
    """Call a function below `frames` additional stack frames."""
    return call() if frames == 0 else at(frames - 1, call)


def nested(levels: int) -> bytes:
    """Return JSON with objects and lists that are nested `levels` deep."""
    return (
        b'{"a":' * (levels % 2)
        + b'[{"a":' * (levels // 2)
        + b"1"
        + b"}]" * (levels // 2)
        + b"}" * (levels % 2)
    )


def pod(levels: int) -> bytes:
    """Return the JSON of a Pod that is `levels` deep, in a field that the model does not define."""
    metadata = b'"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"1"}'
    return b'{"apiVersion":"v1","kind":"Pod",%b,"x":%b}' % (metadata, nested(levels - 1))


def levels_of(value: Any) -> int:
    """Return the nesting depth of the value."""
    levels, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        levels += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return levels


TEXTS = st.text(alphabet='[{"\\}]', max_size=8)
VALUES = st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))


@given(VALUES)
def test_is_too_deep_ignores_brackets_inside_strings(value: Any):
    raw, levels = orjson.dumps(value), levels_of(value)
    for most in range(5):
        for content in (raw, bytearray(raw), memoryview(raw), msgspec.Raw(raw)):
            assert is_too_deep(content, most) == (levels > most)


@pytest.mark.parametrize("stack", STACKS)
def test_decoders_accept_nesting_up_to_the_limit(stack: int):
    def read() -> None:
        assert json_object(pod(MOST_LEVELS), "a pod")["x"] == orjson.loads(nested(MOST_LEVELS - 1))
        record, _ = RecordDecoder(Pod.gvk, field_manager="x")(pod(MOST_LEVELS))
        assert record.raw == pod(MOST_LEVELS)
        assert decode_at_once(record.raw, Pod, record.key).origin == record.raw
        assert Decoder(Named, "a name")(b'{"x":%b,"name":"a"}' % nested(MOST_LEVELS - 1)).name == "a"
        assert levels_of(yaml_text.load(nested(MOST_LEVELS))) == MOST_LEVELS

    at(stack, read)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("levels", DEEP)
def test_decoders_truncate_server_data_nested_beyond_the_limit(levels: int, stack: int):
    def read() -> None:
        assert levels_of(json_object(pod(levels), "a pod")) == MOST_LEVELS
        record, _ = RecordDecoder(Pod.gvk, field_manager="x")(pod(levels))
        assert levels_of(orjson.loads(record.raw)) == MOST_LEVELS
        live = decode_at_once(pod(levels), Pod, ObjectKey("ns", "a"))
        assert live.origin is not None
        assert levels_of(orjson.loads(live.origin)) == MOST_LEVELS
        assert Decoder(Named, "a name")(b'{"x":%b,"name":"a"}' % nested(levels)).name == "a"

    at(stack, read)


@pytest.mark.parametrize("levels", DEEP)
async def test_list_decoding_keeps_an_item_and_removes_its_levels_beyond_the_nesting_limit(levels: int):
    raw = b'{"metadata":{"resourceVersion":"1"},"items":[%b,%b]}' % (pod(3), pod(levels))
    first, second = (await decode_list.large(raw)).items or ()
    assert bytes(first) == pod(3)
    record, _ = RecordDecoder(Pod.gvk, field_manager="x")(second)
    assert levels_of(orjson.loads(record.raw)) == MOST_LEVELS


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("levels", DEEP)
def test_yaml_plan_token_and_status_parsers_reject_or_ignore_text_nested_beyond_the_limit(
    levels: int, stack: int
):
    def read() -> None:
        with pytest.raises(yaml_text.NotYaml, match=r"it is nested too deeply$"):
            yaml_text.load(nested(levels))
        with pytest.raises(ValueError, match=r"^it is no plan of a simulation: it is nested too deeply$"):
            Plan.from_json(nested(levels), kinds=1)
        claims = b'{"exp":1,"x":%b}' % nested(levels - 1)
        parts = (base64.urlsafe_b64encode(each).rstrip(b"=") for each in (b'{"alg":"x"}', claims, b"x"))
        assert not claims_of(b".".join(parts).decode()).have_expired
        status = b'{"kind":"Status","code":404,"message":"x","x":%b}' % nested(levels - 1)
        assert status_error(msgspec.Raw(status)).status == 500

    at(stack, read)
