"""Finding the changes of an object since it was read."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import jsonpatch
import orjson

from apis.cache.v1.memcached import Memcached
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.documents import sample
from benchmarks.micro.world import World
from manager.client.write import merge_diff

if TYPE_CHECKING:
    from benchmarks.micro.benchmark import Work


def documents(*, equal: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a Deployment before and after a change of its image, or two equal ones."""
    before = orjson.loads(sample("deployment"))
    after = copy.deepcopy(before)
    if not equal:
        after["spec"]["template"]["spec"]["containers"][0]["image"] = "memcached:changed"
        after["metadata"]["labels"]["tier"] = "cache"
    return before, after


def merge(*, equal: bool) -> Work:
    before, after = documents(equal=equal)
    assert bool(merge_diff(before, after)) is not equal
    return lambda: merge_diff(before, after)


def make_patch(*, equal: bool) -> Work:
    before, after = documents(equal=equal)
    return lambda: jsonpatch.make_patch(before, after)


def status_unchanged() -> Work:
    """Patch an unchanged status, the end of most reconciles."""
    world = World()
    obj = Memcached.decode(sample("memcached"))

    async def work() -> None:
        assert await world.client.status.patch(obj) is obj

    return work


def status_naive() -> Work:
    raw, status = sample("memcached"), orjson.loads(sample("memcached"))["status"]
    return lambda: orjson.loads(raw)["status"] == status


BENCHMARKS = (
    Benchmark(
        "patch.merge-equal",
        "a Deployment compared with one that is equal",
        ready(lambda: merge(equal=True)),
        against=("patch.jsonpatch-equal",),
    ),
    Benchmark(
        "patch.merge-different",
        "a Deployment compared with one that has another image and a further label",
        ready(lambda: merge(equal=False)),
        against=("patch.jsonpatch-different", "patch.merge-equal"),
    ),
    Benchmark("patch.jsonpatch-equal", "the same with jsonpatch", ready(lambda: make_patch(equal=True))),
    Benchmark("patch.jsonpatch-different", "the same with jsonpatch", ready(lambda: make_patch(equal=False))),
    Benchmark(
        "patch.status-unchanged",
        "a status that need not be written",
        ready(status_unchanged),
        against=("patch.status-naive",),
    ),
    Benchmark(
        "patch.status-naive", "the object decoded into a dict, and the statuses compared", ready(status_naive)
    ),
)
