from __future__ import annotations

from typing import Any

import pytest

from apis.cache.v1.memcached import Memcached
from controllers.cache.memcached import MemcachedOperator
from manager_tools.testing import without_manager
from tests.support.admission import request

OPERATOR = without_manager(MemcachedOperator)
CREATE, UPDATE = request(Memcached), request(Memcached, "UPDATE")


def memcached(size: int, **metadata: Any) -> Memcached:
    return Memcached.model_validate({"metadata": {"name": "m", **metadata}, "spec": {"size": size}})


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        *((None, 1001, True), (None, 10_000, True), (3, 1001, True), (1001, 1002, True)),
        *((1002, 1001, False), (2000, 2000, False), (2000, 0, False)),
    ],
)
async def test_webhook_warns_of_a_very_large_cluster_only_on_creation_or_growth(
    old: int | None, new: int, warned: bool
):
    before = None if old is None else memcached(old)
    said = list(await OPERATOR.warn_of_many(before, memcached(new), CREATE if old is None else UPDATE))
    assert len(said) == warned
    for warning in said:
        assert warning.startswith(f"spec.size: {new} ")
        assert "1000" in warning
