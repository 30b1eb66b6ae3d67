from __future__ import annotations

from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from controllers.cache.webhooks import WEBHOOKS, warn_of_growth, warn_of_many, warn_of_what_is_lost
from tests.support.admission import request

CREATE, UPDATE, DELETE = request(Memcached), request(Memcached, "UPDATE"), request(Memcached, "DELETE")


def memcached(size: int, **metadata: Any) -> Memcached:
    return Memcached.model_validate({"metadata": {"name": "m", **metadata}, "spec": {"size": size}})


@pytest.mark.parametrize("size", [0, 1, 1000])
async def test_a_usual_size_passes_in_silence(size: int):
    assert list(await warn_of_many(memcached(size), CREATE)) == []


@pytest.mark.parametrize("size", [1001, 2**31 - 1])
async def test_a_very_large_cluster_is_warned_about(size: int):
    (warning,) = await warn_of_many(memcached(size), CREATE)
    assert warning.startswith(f"spec.size: {size} ")
    assert "1000" in warning


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [(3, 1001, True), (1001, 1002, True), (1002, 1001, False), (2000, 2000, False), (2000, 0, False)],
)
async def test_it_is_warned_about_again_where_a_change_makes_it_larger(old: int, new: int, warned: bool):
    said = list(await warn_of_growth(memcached(old), memcached(new), UPDATE))
    assert bool(said) is warned


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (1, "1 server will be deleted, and with it what it has cached"),
        (3, "3 servers will be deleted, and with them what they have cached"),
        (2000, "2000 servers will be deleted, and with them what they have cached"),
    ],
)
async def test_the_end_of_a_cluster_that_runs_is_warned_about(size: int, what: str):
    (warning,) = await warn_of_what_is_lost(memcached(size), DELETE)
    assert warning == f"spec.size is {size}: {what}"


async def test_a_cluster_that_is_scaled_down_goes_in_silence():
    assert list(await warn_of_what_is_lost(memcached(0), DELETE)) == []


async def test_who_deletes_again_what_is_being_deleted_is_not_warned_again():
    deleting = memcached(3, deletionTimestamp="2026-03-01T00:00:00Z")
    assert list(await warn_of_what_is_lost(deleting, DELETE)) == []


def test_nothing_is_changed_and_every_operation_is_looked_at():
    (admission,) = WEBHOOKS
    assert admission.mutating is None
    assert admission.validating is not None
    assert admission.validating.operations == ("CREATE", "UPDATE", "DELETE")
