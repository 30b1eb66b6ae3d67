"""Measure the pet store: unary adds per second of one client, and a search over all pets.

    python -m benchmarks.petstore_speed [--adds 20000] [--concurrency 64] [--one-core]

The store has its own process and a new file. With --one-core the client shares its core, so that the figure
is the capacity of one core for both; otherwise the CPU seconds show the capacity of one core.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from benchmarks.table import table
from petstore.client import Pet, PetStoreClient, PetType
from tests.support.petstore_process import PetStoreProcess

BIRTHDAY = datetime.date(2021, 4, 1)


async def add_all(client: PetStoreClient, count: int, concurrency: int, key: str) -> float:
    """Return the seconds of `count` calls with a pet each, `concurrency` at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            name = f"pet-{number}"
            given = f"{key}-{number}" if key else ""
            await client.add([Pet(name=name, type=PetType.DOG, birthday=BIRTHDAY, idempotency_key=given)])

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(worker())
    return time.perf_counter() - begun


async def search_all(client: PetStoreClient) -> tuple[int, float, float]:
    """Return the number of pets found, and the seconds until the first and the last one."""
    begun = time.perf_counter()
    first, count = 0.0, 0
    async with aclosing(client.search(timeout=300)) as pets:
        async for _ in pets:
            count += 1
            first = first or time.perf_counter() - begun
    return count, first, time.perf_counter() - begun


def cpu_seconds(store: PetStoreProcess) -> tuple[float, float]:
    """Return the CPU seconds of the store and of the client so far."""
    return store.process.cpu_seconds(), time.process_time()


def per_cpu_second(count: int, before: tuple[float, float], store: PetStoreProcess) -> list[float]:
    """Return the columns after the rate."""
    served, asked = (now - then for now, then in zip(cpu_seconds(store), before, strict=True))
    return [count / served, count / (served + asked), store.process.resident_bytes() / 1e6]


async def measure(store: PetStoreProcess, adds: int, concurrency: int) -> None:
    rows: list[list[object]] = []
    async with PetStoreClient(store.address, timeout=30) as client:
        await add_all(client, 500, concurrency, "")
        for label, key in (("add", ""), ("add with a key", "key"), ("the same keys again", "key")):
            before = cpu_seconds(store)
            seconds = await add_all(client, adds, concurrency, key)
            rows.append([label, adds / seconds, *per_cpu_second(adds, before, store)])
        # Enough for many pages, in few calls.
        for _ in range(100):
            await client.add([Pet(name="more", type=PetType.CAT, birthday=BIRTHDAY)] * 1000)
        before = cpu_seconds(store)
        count, first, seconds = await search_all(client)
        rows.append([f"search of {count}", count / seconds, *per_cpu_second(count, before, store)])
    print(
        table(["", "a second", "a CPU second of the store", "of store and client", "MB of the store"], rows)
    )
    print(f"the search's first pet after {first * 1000:.1f} ms, its last after {seconds * 1000:.0f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adds", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--one-core", action="store_true")
    options = parser.parse_args()
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the store inherits it
    with tempfile.TemporaryDirectory() as folder, PetStoreProcess(Path(folder)) as store:
        asyncio.run(measure(store, options.adds, options.concurrency))
    return 0


if __name__ == "__main__":
    sys.exit(main())
