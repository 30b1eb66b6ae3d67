from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest

from devcluster import DevCluster
from devcluster.errors import StatusError
from devcluster.quantity import parse_integer, parse_quantity, quoted
from devcluster.schema.cel import CelError, compile_expression
from devcluster.schema.cel.types import STRING

HOSTILE = [
    "1e3000000",
    "1e999999999",
    "1e-999999999",
    "9" * 999,
    "9" * 5000,
    "1e" + "9" * 5000,
    "." + "1" * 5000,
]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1.5Ki", 1536),
        ("-500m", Fraction(-1, 2)),
        ("1e3000000", 10**1000),
        ("1Kib", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_parse_quantity_caps_a_huge_amount_and_returns_none_for_invalid_text(text: str, amount: Any):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", HOSTILE)
async def test_cluster_answers_requests_with_extreme_quantities_within_three_cpu_seconds(text: str):
    pod = {
        "containers": [
            {"name": "a", "image": "a", "resources": {"requests": {"cpu": text}, "limits": {"cpu": text}}}
        ]
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": text}}}
    sent: list[tuple[str, dict[str, Any]]] = [
        ("persistentvolumeclaims", {"spec": claim}),
        ("pods", {"spec": pod}),
        ("resourcequotas", {"spec": {"hard": {"cpu": text}}}),
        (
            "limitranges",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": text}, "min": {"cpu": "1"}}]}},
        ),
    ]
    codes: set[int] = set()
    began = time.process_time()
    async with DevCluster(port=None) as cluster:

        async def attempt(writing: Awaitable[Any]) -> None:
            try:
                await writing
            except StatusError as error:
                codes.add(error.code)

        for resource, obj in sent:
            await attempt(cluster.client.create(resource, "default", {"metadata": {"name": "a"}, **obj}))
        while not (nodes := cluster.store.select("", "nodes")):  # noqa: ASYNC110 -- no event says it
            await asyncio.sleep(0.01)
        status = {"status": {"allocatable": {"cpu": text, "pods": "110"}}}
        await attempt(cluster.client.patch("nodes", "", nodes[0].key.name, status, subresource="status"))
        await asyncio.sleep(0.1)  # time for the scheduler to read the pod
    assert codes <= {400, 422}
    assert time.process_time() - began < 3


@pytest.mark.parametrize("text", HOSTILE)
def test_cel_expression_with_an_extreme_quantity_gives_a_boolean_or_a_cel_error(text: str):
    program = compile_expression(
        "isQuantity(self) && quantity(self).isGreaterThan(quantity('1'))", {"self": STRING}
    )
    with suppress(CelError):
        assert program.run({"self": text}) in {True, False}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-5", -5),
        ("+" + "0" * 5000 + "7", 7),
        ("9" * 20, 10**20 - 1),
        ("9" * 5000, None),
        ("1_0", None),
        (" 5", None),
        ("\N{ARABIC-INDIC DIGIT THREE}", None),
        ("\N{SUPERSCRIPT TWO}", None),
        ("", None),
    ],
)
def test_parse_integer_accepts_only_decimal_ascii_digits(text: str, number: int | None):
    assert parse_integer(text) == number


def test_quoted_escapes_a_text_as_go_does():
    text = 'w\a\x01\x7f\u200b\xa0"\\é\U0001f600\U000e0001'
    assert quoted(text) == r'"w\a\x01\x7f\u200b\u00a0\"\\é😀\U000e0001"'
