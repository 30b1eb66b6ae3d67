from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest

from benchmarks.micro import sampling
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.sampling import measure


async def test_measure_runs_each_benchmark_once_a_round_in_alternating_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampling, "SAMPLE", 0.0)  # then one call is a sample
    done: list[str] = []
    benchmarks = [
        Benchmark(name, "", ready(lambda name=name: lambda: done.append(name))) for name in ("a", "b")
    ]
    found = await measure(benchmarks, 4)
    warm_up, rounds = done[:2], done[2:]
    assert warm_up == ["a", "b"]
    assert "".join(rounds) == "abbaabba"
    for samples in found.values():
        assert len(samples.seconds) == len(samples.references) == 4
        assert all(reference > 0 for reference in samples.references)


async def test_measure_awaits_coroutine_functions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampling, "SAMPLE", 0.0)
    ended = 0

    async def work():
        nonlocal ended
        await asyncio.sleep(0)
        ended += 1

    await measure([Benchmark("a", "", ready(lambda: work))], 3)
    assert ended == 4


async def test_measure_repeats_fast_work_to_fill_a_sample():
    calls = 0

    def work():
        nonlocal calls
        calls += 1

    await measure([Benchmark("a", "", ready(lambda: work))], 1)
    assert calls > 1000


async def test_seconds_are_those_of_one_unit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampling, "SAMPLE", 0.0)
    clock = iter(range(1000))
    monkeypatch.setattr(sampling.time, "process_time", lambda: next(clock))
    monkeypatch.setattr(sampling, "reference", lambda: None)
    found = await measure([Benchmark("a", "", ready(lambda: lambda: None), units=4)], 2)
    assert found["a"].seconds == [0.25, 0.25]
    assert found["a"].references == [1, 1]


async def test_measure_leaves_contexts_and_unfreezes_gc_when_a_benchmark_fails():
    left = []

    @asynccontextmanager
    async def prepare():
        try:
            yield lambda: 1 / 0
        finally:
            left.append("a")

    frozen = gc.get_freeze_count()
    try:
        await measure([Benchmark("a", "", prepare)], 1)
    except ZeroDivisionError:
        left.append("error")
    assert left == ["a", "error"]
    assert gc.get_freeze_count() == frozen
