"""Tables show what the real server's show: its columns and rows, recorded by record.py."""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

import pytest

from devcluster.builtin import resources
from devcluster.clock import Clock
from devcluster.kinds.resource import Resource

Json = dict[str, Any]

ROWS: list[Json] = json.loads((pathlib.Path(__file__).parent / "recorded_rows.json").read_text())


def found(name: str, now: str) -> Resource:
    clock = Clock(lambda: datetime.datetime.fromisoformat(now).timestamp())
    return next(each for each in resources(clock=clock) if each.name == name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["object"]["metadata"]["name"])
def test_row(row: Json) -> None:
    resource = found(row["resource"], row["now"])
    columns = [[each.name, each.type, each.format, each.priority] for each in resource.columns]
    assert columns == row["columns"]
    assert resource.strategy.row(row["object"]) == row["cells"]
    assert resource.strategy.row_conditions(row["object"]) == row.get("conditions", [])
