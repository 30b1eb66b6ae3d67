from __future__ import annotations

import asyncio

import pytest

from manager.util.rate_limit import Lines, Repeats, TokenBucket

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return round(asyncio.get_running_loop().time(), 6)


async def test_token_bucket_allows_a_burst_and_regains_a_token_per_interval():
    bucket = TokenBucket(rate=2, burst=3)
    await asyncio.sleep(3600)
    assert [bucket.try_acquire() for _ in range(5)] == [True, True, True, False, False]
    await asyncio.sleep(0.4)
    assert not bucket.try_acquire()
    await asyncio.sleep(0.11)
    assert [bucket.try_acquire() for _ in range(2)] == [True, False]


async def test_token_bucket_lets_waiters_through_at_its_rate_in_order():
    bucket = TokenBucket(rate=10, burst=1)
    passed: list[tuple[int, float]] = []

    async def pass_through(number: int) -> None:
        await bucket.acquire()
        passed.append((number, now()))

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(pass_through(number))
    assert passed == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)]


async def test_token_bucket_regains_token_of_a_cancelled_wait():
    bucket = TokenBucket(rate=1, burst=1)
    assert bucket.try_acquire()
    waiting = asyncio.create_task(bucket.acquire())
    await asyncio.sleep(0.5)
    assert not bucket.try_acquire()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.5)
    assert bucket.try_acquire()
    await bucket.acquire()
    assert now() == 2
    assert not bucket.try_acquire()


@pytest.mark.parametrize(
    ("cancelled", "passed"),
    [("BC", [("A", 0), ("D", 1), ("E", 2)]), ("B", [("A", 0), ("C", 1), ("D", 2), ("E", 3)])],
)
async def test_token_bucket_keeps_rate_and_order_when_waiters_are_cancelled(
    cancelled: str, passed: list[tuple[str, int]]
):
    bucket, found = TokenBucket(rate=1, burst=1), list[tuple[str, float]]()

    async def pass_through(name: str) -> None:
        await bucket.acquire()
        found.append((name, now()))

    tasks = {name: asyncio.create_task(pass_through(name)) for name in "ABCD"}
    await asyncio.sleep(0.5)
    for name in cancelled:
        tasks[name].cancel()
    await pass_through("E")
    await asyncio.wait(tasks.values())
    assert found == passed


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (float("inf"), 1), (1, 0)])
async def test_token_bucket_refuses_invalid_numbers(rate: float, burst: int):
    with pytest.raises(ValueError, match="positive rate"):
        TokenBucket(rate=rate, burst=burst)


async def test_repeat_counter_reports_its_count_at_growing_intervals_up_to_15_minutes():
    repeats, told = Repeats(), []
    for _ in range(3600):
        if (times := repeats.count()) is not None:
            told.append((now(), times))
        await asyncio.sleep(1)
    assert told == [(0, 1), (60, 60), (180, 120), (420, 240), (900, 480), (1800, 900), (2700, 900)]
    await asyncio.sleep(1000)
    assert [repeats.count(), repeats.count()] == [900, None]
    await asyncio.sleep(61)
    assert repeats.count() == 2


async def test_log_line_limiter_omits_and_counts_lines_above_the_limit():
    lines, written = Lines(per_minute=2), list[tuple[str, dict[str, int]]]()

    def write(event: str, **told: int) -> None:
        written.append((event, told))

    for number in range(5):
        lines.log(write, "failed", number=number)
    await asyncio.sleep(30)
    for number in (5, 6):
        lines.log(write, "failed", number=number)
    assert written == [
        ("failed", {"number": 0}),
        ("failed", {"number": 1}),
        ("failed", {"number": 5, "untold": 3}),
    ]
