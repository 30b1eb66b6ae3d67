"""Benchmarks with few objects: three quick benchmarks of two programs, and the benchmark of shards."""

from __future__ import annotations

import pytest

from benchmarks.parts import Sizes
from benchmarks.peers import lacks_of
from benchmarks.peers.bare import PEERS as BARE
from benchmarks.peers.ours import PEERS as OURS
from benchmarks.progress import Budget, Progress
from benchmarks.results import Results
from benchmarks.shards.__main__ import FEWEST
from benchmarks.shards.__main__ import run as run_shards
from benchmarks.suite import Suite, Taking
from tests.support.benchmark_results import made_run
from tests.support.envtest import why_not

SIZES = Sizes(
    objects=30,
    rates=(50,),
    long_seconds=1,
    seconds=1,
    pods=20,
    few=5,
    many=20,
    others=50,
    among=5,
    own=50,
    changes=5,
    quiet_seconds=1,
    settle=0.2,
)
pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(why_not()), reason=str(why_not()))]
PEERS = (*OURS, *BARE)


def test_quick_benchmarks_record_the_expected_requests_and_no_failed_sample():
    parts = ("steady", "change", "ten")
    lacks = {peer.name: dict(peer.lacks) for peer in PEERS}
    run = made_run(*lacks, rounds=1, lacks=lacks, sizes=SIZES.as_json())
    results = Results.begin(run, parts)
    taking = [Taking(peer.name, peer.make().program, lacks_of(peer)) for peer in PEERS]
    budget = Budget(600, lambda what: None)
    suite = Suite(taking, parts, results, rounds=1, sizes=SIZES, save=lambda: None, budget=budget)
    suite.run(Progress())
    assert [each.failed for samples in results.samples.values() for each in samples if each.failed] == []
    assert results.samples["steady"][0].figures["requests"] == 0
    change = results.samples["change"][0]
    for group in ("few", "many"):
        assert change.requests[f"{group}: APPLY deployments 200"] == 5
        assert change.requests[f"{group}: PATCH memcacheds status 200"] == 5
    assert results.samples["ten"][0].figures["watches"] == 1


@pytest.mark.whole
@pytest.mark.timeout(900)
@pytest.mark.last
def test_shard_benchmark_reports_exactly_the_expected_number_of_moved_objects():
    figures = run_shards(FEWEST)
    for count, uses in figures.uses.items():
        assert len(uses) == int(count)
        assert sum(use.objects for use in uses) == FEWEST
        assert all(use.memory_mb > 0 for use in uses)
    assert [each.replicas for each in figures.changes] == [2, 3, 2, 3, 2, 1, 2]
    for each in figures.changes:
        assert each.moved == each.expected > 0
        assert bool(each.unowned_s) == (each.what != "one comes")
