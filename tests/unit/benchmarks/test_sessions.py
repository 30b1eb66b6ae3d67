"""Figures of the sessions from counters: requests, histogram buckets, CPU time."""

from __future__ import annotations

import pytest

from benchmarks.sessions import process
from benchmarks.sessions.busy import import_ms
from benchmarks.sessions.many import quantile_of
from benchmarks.sessions.requests import all_writes, conflicts, server_errors, writes

COUNTS = {
    "LIST memcacheds 200": 3,
    "GET customresourcedefinitions 404": 1,
    "PATCH memcacheds status 200": 5,
    "PATCH memcacheds status 409": 2,
    "POST events 201": 7,
    "POST deployments 503": 1,
    "APPLY deployments 429": 1,
}


def test_requests_are_told_apart_by_verb_and_code():
    assert writes(COUNTS) == 9
    assert all_writes(COUNTS) == 16
    assert conflicts(COUNTS) == 2
    assert server_errors(COUNTS) == 2


@pytest.mark.parametrize(
    ("share", "bound"), [(0.5, 0.01), (0.9, 0.05), (0.99, float("inf"))], ids=["half", "most", "all but one"]
)
def test_quantile_of_uses_only_observations_since_the_last_sample(share: float, bound: float):
    before = {0.01: 10.0, 0.05: 10.0, float("inf"): 10.0}
    now = {0.01: 15.0, 0.05: 19.0, float("inf"): 20.0}
    assert quantile_of(now, before, share) == bound


def test_quantile_of_returns_none_without_observations():
    assert quantile_of({0.01: 3.0, float("inf"): 3.0}, {0.01: 3.0, float("inf"): 3.0}, 0.99) is None
    assert quantile_of({}, {}, 0.99) is None


def test_machine_idle_share_is_idle_time_divided_by_total_time(monkeypatch: pytest.MonkeyPatch):
    times = iter([(100, 1000), (175, 1100)])
    monkeypatch.setattr(process.Machine, "_times", staticmethod(lambda: next(times)))
    assert process.Machine().idle_share() == 0.75


def test_import_ms_sums_up_the_modules_of_each_package():
    log = """import time: self [us] | cumulative | imported package
import time:      1500 |       1500 |   pydantic.fields
import time:       500 |       2000 | pydantic
{"level": "info", "event": "import time: | 3"}
import time:       250 |        250 |     _ssl
"""
    assert import_ms(log) == {"pydantic": 2.0, "_ssl": 0.25}
