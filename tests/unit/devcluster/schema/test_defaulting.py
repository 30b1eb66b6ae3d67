from __future__ import annotations

import json
from typing import Any

import orjson

from devcluster.schema.defaulting import drop_nulls
from devcluster.schema.node import Schema


def test_drop_nulls_leaves_the_numbers_that_go_reads():
    given = [1.0, 1e6, 2**63 - 1, -(2**63), 0.5, 2**63, 2**64 - 1, 1e20, -1e20, 1e300]
    obj: dict[str, Any] = {"listed": list(given)} | {f"n{index}": each for index, each in enumerate(given)}
    drop_nulls(obj, Schema())
    stored = orjson.dumps(obj)  # has no integers with more than 64 bits
    read = json.loads(stored)
    assert read.pop("listed") == list(read.values()) == given[:5] + [float(each) for each in given[5:]]
    assert [type(each) for each in read.values()] == [int] * 4 + [float] * 6
