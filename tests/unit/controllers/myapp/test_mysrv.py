from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from controllers.myapp.mysrv import MySrvOperator
from tests.unit.controllers.seen import Seen, seen

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]

SPEC = {"name": "CloudCMP", "port": 80}


@pytest.fixture
async def mysrvs() -> AsyncIterator[Seen]:
    async with seen(MySrvOperator) as found:
        yield found


async def test_mysrv_operator_writes_once_for_each_spec_change_and_ignores_labels(mysrvs: Seen):
    assert await mysrvs.cost(mysrvs.create("sample", SPEC)) == (1, 1)
    status = mysrvs.status("sample")
    [ready] = status.pop("conditions")
    assert status == {"status": "Available", "observedGeneration": 1}
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "SpecTakenUp")
    assert ready["message"] == "The spec is taken up: CloudCMP, port 80"
    assert await mysrvs.cost(mysrvs.patch("sample", metadata={"labels": {"a": "b"}})) == (0, 0)
    assert await mysrvs.cost(mysrvs.patch("sample", spec={"port": 443})) == (1, 1)
    [after] = mysrvs.status("sample")["conditions"]
    assert after["message"] == "The spec is taken up: CloudCMP, port 443"
    assert (after["observedGeneration"], after["lastTransitionTime"]) == (2, ready["lastTransitionTime"])
    assert sum(count for _, count in await mysrvs.events_of("sample")) == 2
