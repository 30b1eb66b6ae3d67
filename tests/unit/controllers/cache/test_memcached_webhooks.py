from __future__ import annotations

from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from controllers.cache.memcached import MemcachedOperator
from manager_tools.testing import without_manager
from tests.support.admission import request, webhooks_of

OPERATOR = without_manager(MemcachedOperator)
CREATE, UPDATE = request(Memcached), request(Memcached, "UPDATE")


def memcached(size: int, **metadata: Any) -> Memcached:
    return Memcached.model_validate({"metadata": {"name": "m", **metadata}, "spec": {"size": size}})


@pytest.mark.parametrize("size", [1001, 10_000])
async def test_memcached_webhook_warns_about_very_large_cluster(size: int):
    (warning,) = await OPERATOR.warn_of_many(None, memcached(size), CREATE)
    assert warning.startswith(f"spec.size: {size} ")
    assert "1000" in warning


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [(3, 1001, True), (1001, 1002, True), (1002, 1001, False), (2000, 2000, False), (2000, 0, False)],
)
async def test_update_of_a_very_large_cluster_is_warned_about_only_when_it_grows(
    old: int, new: int, warned: bool
):
    said = list(await OPERATOR.warn_of_many(memcached(old), memcached(new), UPDATE))
    assert bool(said) is warned


def test_size_webhook_ignores_failures_and_sees_only_creation_and_update():
    (admission,) = webhooks_of(MemcachedOperator)
    (webhook,) = admission.webhooks
    assert not webhook.mutating
    assert webhook.operations == ("CREATE", "UPDATE")
    assert admission.failure_policy == "Ignore"
