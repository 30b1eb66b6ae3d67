"""The database file: persistence, refused files, and concurrent operations."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from petstore.pet import Pet
from petstore.storage import DataUnusable, DiskFull, PetUnknown, Query, Storage, new_id
from tests.support.petstores import pet


async def found(storage: Storage, query: Query | None = None) -> list[str]:
    """Return the names of the pets that the query finds."""
    return [one.name async for page in storage.search(query or Query()) for one in page]


async def test_storage_keeps_all_records_across_a_restart(tmp_path: Path):
    path = tmp_path / "pets.db"
    async with Storage(path) as storage:
        ids = await storage.add([pet("a", idempotency_key="key"), pet("b")])
    async with Storage(path) as storage:
        pets = [one async for page in storage.search(Query()) for one in page]
        assert pets == [pet("a", idempotency_key="key", id=ids[0]), pet("b", id=ids[1])]
        assert await storage.add([pet("c", idempotency_key="key")]) == ids[:1]


async def test_storage_refuses_a_file_in_use_even_when_opened_through_a_symlink(tmp_path: Path):
    path = tmp_path / "pets.db"
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with Storage(path) as storage:
        await storage.add([pet()])
        for way in (path, link, tmp_path / "." / "pets.db"):
            with pytest.raises(DataUnusable, match=r"pets\.db is in use by another process"):
                async with Storage(way):
                    pass
        assert await found(storage) == ["Thor"]
    async with Storage(link) as storage:
        assert await found(storage) == ["Thor"]


async def opened(path: Path, *pets: Pet) -> None:
    async with Storage(path) as storage:
        await storage.add(pets)


def refused(path: Path, match: str) -> None:
    """Assert that the file is refused with a message that matches `match`, and is not changed."""
    before = path.read_bytes()
    with pytest.raises(DataUnusable, match=match):
        asyncio.run(opened(path))
    assert path.read_bytes() == before


def test_storage_refuses_damaged_files_and_files_of_other_programs(tmp_path: Path):
    good, bad = tmp_path / "good.db", tmp_path / "bad.db"
    asyncio.run(opened(good, *(pet(f"pet-{number}") for number in range(3000))))
    content = good.read_bytes()
    for spoilt, reason in (
        (b"not a database at all, but long enough for a header\n" * 10, "is not a pet store's file, or is"),
        (content[:8192] + b"\xff" * (20_000 - 8192) + content[20_000:], "is damaged"),
        (content[:50_000], "is damaged"),
    ):
        bad.write_bytes(spoilt)
        refused(bad, rf"bad\.db {reason}")
    for statement, reason in (
        ("PRAGMA application_id = 7", "a database of another program"),
        ("PRAGMA user_version = 99", r"of another version of the pet store \(format 99, not 1\)"),
    ):
        shutil.copy(good, bad)
        database = sqlite3.connect(bad)
        database.execute(statement)
        database.execute("PRAGMA journal_mode = DELETE")
        database.close()
        refused(bad, reason)


async def test_storage_opens_a_database_whose_process_was_killed_before_it_created_tables(tmp_path: Path):
    path = tmp_path / "pets.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    async with Storage(path) as storage:
        await storage.add([pet()])
        assert await found(storage) == ["Thor"]


async def test_storage_stores_other_concurrent_writes_when_one_write_is_refused(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage:
        (identity,) = await storage.add([pet("a")])
        results = await asyncio.gather(
            storage.add([pet("b")]),
            storage.update([pet("changed", id=identity), pet(id="nobody")]),
            storage.add([pet("c")]),
            return_exceptions=True,
        )
        assert isinstance(results[1], PetUnknown)
        assert await found(storage) == ["a", "b", "c"]


async def test_storage_search_returns_records_of_writes_requested_before_the_search(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage, asyncio.TaskGroup() as tasks:
        writes = [tasks.create_task(storage.add([pet(str(number))])) for number in range(100)]
        await asyncio.sleep(0)  # the writes are requested, but none is done
        assert await found(storage) == [str(number) for number in range(100)]
        assert all(write.done() for write in writes)


async def test_storage_skips_a_write_whose_caller_was_cancelled(tmp_path: Path):
    released = threading.Event()

    def new_id_when_released() -> str:
        released.wait()
        return new_id()

    async with Storage(tmp_path / "pets.db") as storage, asyncio.TaskGroup() as tasks:
        tasks.create_task(storage.add([pet("first")], new_id_when_released))
        gone = tasks.create_task(storage.add([pet("gone")]))
        kept = tasks.create_task(storage.add([pet("kept")]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        released.set()
        await kept
        assert await found(storage) == ["first", "kept"]


async def test_storage_search_shows_additions_and_deletions_in_its_later_pages(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage:
        ids = await storage.add([pet(str(number)) for number in range(1200)])
        seen: list[Pet] = []
        pages = storage.search(Query())
        async for page in pages:
            if not seen:
                await storage.delete([ids[0], ids[1100]])
                await storage.add([pet("late")])
            seen += page
        expected = [str(number) for number in range(1200) if number != 1100]
        assert [one.name for one in seen] == [*expected, "late"]


async def test_storage_finishes_waiting_writes_when_it_closes(tmp_path: Path):
    path = tmp_path / "pets.db"
    async with Storage(path) as storage:
        writing = asyncio.gather(*(storage.add([pet(str(number))]) for number in range(50)))
        await asyncio.sleep(0)
    assert len(await writing) == 50
    async with Storage(path) as storage:
        assert len(await found(storage)) == 50


async def test_storage_write_to_a_full_disk_raises_disk_full_and_stores_nothing(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage:
        await storage.add([pet("before")])
        storage._database.execute("PRAGMA max_page_count=1")  # the file cannot grow
        with pytest.raises(DiskFull, match="the disk of the store is full; nothing was written"):
            await storage.add([pet("x" * 250) for _ in range(200)])
        storage._database.execute("PRAGMA max_page_count=1000000")
        await storage.add([pet("after")])
        assert await found(storage) == ["before", "after"]
