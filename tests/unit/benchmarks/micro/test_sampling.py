"""`python -m benchmarks.micro`: every benchmark works, and comparisons are measured in turns."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from benchmarks.micro import sampling
from benchmarks.micro.__main__ import main
from benchmarks.micro.sampling import Benchmark, Middle, measure, ratio, ready
from benchmarks.micro.suites import SUITES
from manager.util.loop import loop_factory


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
    assert [len(each) for each in found.values()] == [4, 4]


def test_ratio_is_unaffected_when_the_machine_slows_down():
    assert ratio([2.0, 3.0, 8.0], [1.0, 1.5, 4.0]) == Middle(2.0, 0.0)


@pytest.mark.usefixtures("gc_thresholds")
def test_main_lists_and_measures_a_benchmark_beside_its_comparison(capsys: pytest.CaptureFixture[str]):
    assert main(["--list", "queue"]) == 0
    assert main(["--rounds", "1", "queue.through-1000"]) == 0
    out = capsys.readouterr().out
    assert out.count("queue.naive-1000") >= 2
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no benchmark 'nothing'" in capsys.readouterr().err
