"""Every microbenchmark can be prepared, does its work again and again, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from benchmarks.micro.benchmark import Benchmark
from benchmarks.micro.catalogue import SUITES
from manager.util.loop import loop_factory

ALL = [benchmark for suite in SUITES.values() for benchmark in suite]


@pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param(benchmark, id=benchmark.name, marks=[] if benchmark is suite[0] else pytest.mark.whole)
        for suite in SUITES.values()
        for benchmark in suite
    ],
)
def test_benchmark_runs_and_leaves_no_tasks(benchmark: Benchmark):
    async def run():
        async with benchmark.prepare() as work:
            for _ in range(2):
                done = work()
                if inspect.isawaitable(done):
                    await done
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run())


def test_benchmarks_have_unique_names_prefixed_with_their_suite():
    names = [benchmark.name for benchmark in ALL]
    assert len(set(names)) == len(names)
    for suite, benchmarks in SUITES.items():
        assert all(benchmark.name.startswith(f"{suite}.") for benchmark in benchmarks)


@pytest.mark.parametrize("suite", SUITES)
def test_suite_contains_every_benchmark_that_its_comparisons_name(suite: str):
    names = {benchmark.name for benchmark in SUITES[suite]}
    compared = {other for benchmark in SUITES[suite] for other in benchmark.against}
    assert compared <= names
    alone = {benchmark.name for benchmark in SUITES[suite] if not benchmark.against}
    assert alone <= compared, "a figure with nothing beside it says nothing"
