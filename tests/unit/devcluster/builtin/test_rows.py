"""Tables show what the real server's show: its columns and rows, as they were recorded."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.clock import Clock
from devcluster.kinds.resource import Resource
from tests.recordings.asking import NOW
from tests.recordings.builtin import rows

Json = dict[str, Any]


def found(name: str, now: str) -> Resource:
    clock = Clock(lambda: datetime.datetime.fromisoformat(now).timestamp())
    return next(each for each in resources(clock=clock) if each.name == name)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_row(row: Json) -> None:
    resource = found(row["resource"], NOW)
    columns = {each.name: [each.type, each.format, each.priority] for each in resource.columns}
    assert [*columns.items()] == [*row["columns"].items()]
    assert resource.strategy.row(row["object"]) == row["cells"]
    assert resource.strategy.row_conditions(row["object"]) == row.get("conditions", [])
