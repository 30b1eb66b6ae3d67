"""The file: what survives, what is refused, and what happens to operations together."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import sqlite3
from contextlib import aclosing
from pathlib import Path

import pytest

from petstore.capacity import Capacity
from petstore.pet import Pet, PetType
from petstore.storage import (
    Add,
    DataUnusable,
    Delete,
    DiskFull,
    PetUnknown,
    Query,
    Storage,
    StoreFull,
    TooBusy,
    Update,
    WriteFailed,
)
from petstore.storage.database import open_database
from tests.support.petstores import pet

LONG = "x" * 1024


async def found(storage: Storage, query: Query | None = None) -> list[str]:
    """Return the names of the pets that the query finds."""
    return [one.name async for page in storage.search(query or Query()) for one in page]


async def test_a_restart_keeps_all(tmp_path: Path):
    path = tmp_path / "pets.db"
    async with Storage(path) as storage:
        ids = await storage.write(Add([pet("a", idempotency_key="key"), pet("b")]))
    async with Storage(path) as storage:
        pets = [one async for page in storage.search(Query()) for one in page]
        assert pets == [pet("a", idempotency_key="key", id=ids[0]), pet("b", id=ids[1])]
        assert await storage.write(Add([pet("c", idempotency_key="key")])) == ids[:1]


async def test_storage_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with Storage(None) as storage:
        await storage.write(Add([pet()]))
        assert await found(storage) == ["Thor"]
    async with Storage(None) as storage:
        assert await found(storage) == []
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_lock_file_that_is_a_link_is_refused_and_leads_to_no_other_file(tmp_path: Path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "pets.db-lock").symlink_to(other)
    with pytest.raises(DataUnusable, match=r"pets\.db: Too many levels of symbolic links"):
        async with Storage(tmp_path / "pets.db"):
            pass
    assert other.read_text() == "kept"


async def test_storage_refuses_a_file_in_use_by_any_path(tmp_path: Path):
    path = tmp_path / "pets.db"
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with Storage(path) as storage:
        await storage.write(Add([pet()]))
        for way in (path, link, tmp_path / "." / "pets.db"):
            with pytest.raises(
                DataUnusable, match=r"pets\.db is in use by another pet store \(process \d+\)"
            ):
                async with Storage(way):
                    pass
        assert await found(storage) == ["Thor"]
    async with Storage(link) as storage:
        assert await found(storage) == ["Thor"]


async def fill(path: Path, count: int = 3000) -> None:
    async with Storage(path) as storage:
        await storage.write(Add([pet(f"pet-{number}") for number in range(count)]))


def refused(path: Path, match: str) -> None:
    """Assert that the database is refused with that text, and stays unchanged."""
    before = path.read_bytes()
    with pytest.raises(DataUnusable, match=match):
        open_database(path)
    assert path.read_bytes() == before


def test_damaged_and_foreign_files_are_refused(tmp_path: Path):
    good = tmp_path / "good.db"
    asyncio.run(fill(good))
    bad = tmp_path / "bad.db"

    bad.write_bytes(b"not a database at all, but long enough for a header\n" * 10)
    refused(bad, r"bad\.db is not a pet store's file, or is damaged")

    content = bytearray(good.read_bytes())
    content[8192:20_000] = b"\xff" * (20_000 - 8192)
    bad.write_bytes(content)
    refused(bad, r"bad\.db is damaged")

    bad.write_bytes(good.read_bytes()[:50_000])
    refused(bad, r"bad\.db is damaged")

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


async def test_storage_gives_the_reason_why_a_path_cannot_be_opened(tmp_path: Path):
    for path, reason in (
        (tmp_path / "missing" / "pets.db", "No such file or directory"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(DataUnusable, match=reason):
            async with Storage(path):
                pass


async def test_a_start_that_was_killed_is_made_up_for(tmp_path: Path):
    path = tmp_path / "pets.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    async with Storage(path) as storage:
        await storage.write(Add([pet()]))
        assert await found(storage) == ["Thor"]


async def test_refused_write_does_not_fail_other_writes_of_its_batch(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage:
        (identity,) = await storage.write(Add([pet("a")]))
        results = await asyncio.gather(
            storage.write(Add([pet("b")])),
            storage.write(Update([pet("changed", id=identity), pet(id="nobody")])),
            storage.write(Add([pet("c")])),
            return_exceptions=True,
        )
        assert isinstance(results[1], PetUnknown)
        assert await found(storage) == ["a", "b", "c"]


async def test_search_sees_writes_requested_before_it(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage, asyncio.TaskGroup() as tasks:
        writes = [tasks.create_task(storage.write(Add([pet(str(number))]))) for number in range(100)]
        await asyncio.sleep(0)  # the writes have been asked for, none has been done
        assert await found(storage) == [str(number) for number in range(100)]
        assert all(write.done() for write in writes)


async def test_storage_skips_a_write_whose_caller_was_cancelled(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage, asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(storage.write(Add([pet("gone")])))
        kept = tasks.create_task(storage.write(Add([pet("kept")])))
        await asyncio.sleep(0)
        gone.cancel()
        await kept
        assert await found(storage) == ["kept"]


async def test_pages_hold_together_while_pets_come_and_go(tmp_path: Path):
    async with Storage(tmp_path / "pets.db") as storage:
        ids = await storage.write(Add([pet(str(number)) for number in range(1200)]))
        seen: list[Pet] = []
        pages = storage.search(Query())
        async for page in pages:
            if not seen:
                await storage.write(Delete([ids[0], ids[1100]]))
                await storage.write(Add([pet("late")]))
            seen += page
        expected = [str(number) for number in range(1200) if number != 1100]
        assert [one.name for one in seen] == [*expected, "late"]


async def test_storage_finishes_waiting_writes_when_it_closes(tmp_path: Path):
    path = tmp_path / "pets.db"
    async with Storage(path) as storage:
        writing = asyncio.gather(*(storage.write(Add([pet(str(number))])) for number in range(50)))
        await asyncio.sleep(0)
    assert len(await writing) == 50
    async with Storage(path) as storage:
        assert len(await found(storage)) == 50


async def test_a_write_that_fails_is_told_and_the_next_one_works():
    async with Storage(None) as storage:
        broken = pet("broken", birthday=None)  # type: ignore[arg-type] -- whatever it is that goes wrong
        with pytest.raises(WriteFailed):
            await storage.write(Add([pet("before"), broken]))
        await storage.write(Add([pet("after")]))
        assert await found(storage) == ["after"]


async def test_write_to_a_full_disk_is_refused_as_such_and_keeps_nothing(tmp_path: Path):
    async with Storage(tmp_path / "pets.db", Capacity(pets=202)) as storage:
        await storage.write(Add([pet("before")]))
        storage._database.writer.execute("PRAGMA max_page_count=1")  # as many as the file has by now
        with pytest.raises(DiskFull, match="the disk of the store is full; nothing was written"):
            await storage.write(Add([pet("x" * 250) for _ in range(200)]))
        storage._database.writer.execute("PRAGMA max_page_count=1000000")
        await storage.write(Add([pet("after")]))
        assert await found(storage) == ["before", "after"]
        # The limit's number of pets without these two: refused pets do not count.
        await storage.write(Add([pet(str(number)) for number in range(200)]))


MANY = 50_000


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Create a file with many dogs, and a cat behind them."""
    path = tmp_path / "many.db"
    database = open_database(path)
    kinds = [*["dog"] * MANY, "cat"]
    rows = [(f"id-{seq}", f"pet-{seq}", kind, f"key-{seq}") for seq, kind in enumerate(kinds)]
    database.writer.execute("BEGIN")
    database.writer.executemany(
        "INSERT INTO pets (id, name, type, birthday, idempotency_key) VALUES (?, ?, ?, '2021-04-01', ?)", rows
    )
    database.writer.execute("COMMIT")
    database.close()
    return path


@pytest.mark.parametrize(
    "expensive",
    [
        Query(types=[PetType.BIRD]),
        Query(names=[f"nobody-{number}" for number in range(10_000)]),
        Query(born_from=datetime.date(2022, 1, 1)),
    ],
)
async def test_a_search_that_looks_at_many_pets_lets_others_read_meanwhile(many: Path, expensive: Query):
    async with Storage(many) as storage:
        searching = [asyncio.create_task(found(storage, expensive)) for _ in range(4)]
        await asyncio.sleep(0)
        async with aclosing(storage.search(Query(keys=["key-7"]))) as pages:
            assert [one.name for one in await anext(pages)] == ["pet-7"]
        assert not any(task.done() for task in searching)
        assert await asyncio.gather(*searching) == [[]] * 4


async def test_search_finds_a_pet_far_behind_others(many: Path):
    async with Storage(many) as storage:
        wanted = f"pet-{MANY}"
        assert await found(storage, Query(types=[PetType.CAT])) == [wanted]
        assert await found(storage, Query(names=["pet-0", wanted])) == ["pet-0", wanted]
        assert await found(storage, Query(keys=[f"key-{MANY}", "key-1"])) == ["pet-1", wanted]
        # However large the gap before it is.
        for first in range(10, MANY, 10_000):
            await storage.write(Delete([f"id-{seq}" for seq in range(first, min(first + 10_000, MANY))]))
        assert await found(storage) == [*(f"pet-{seq}" for seq in range(10)), wanted]


async def test_storage_refuses_writes_above_its_queue_and_forgets_cancelled_ones():
    async with Storage(None, Capacity(waiting_pets=50)) as storage:
        first = [asyncio.create_task(storage.write(Add([pet()] * 9))) for _ in range(5)]
        await asyncio.sleep(0)  # all wait, and none has begun
        with pytest.raises(TooBusy, match="try again later"):
            await storage.write(Add([pet()]))
        for task in first[1:]:
            task.cancel()
        await asyncio.sleep(0)
        assert await storage.write(Add([pet("honest")]))
        assert len([one async for page in storage.search(Query()) for one in page]) == 10


async def test_storage_refuses_pets_above_its_capacity():
    async with Storage(None, Capacity(pets=10)) as storage:
        ids = await storage.write(Add([pet(str(number), idempotency_key=str(number)) for number in range(8)]))
        with pytest.raises(StoreFull, match=r"the store is full: it may have 10 pets \(--max-pets\)"):
            await storage.write(Add([pet(), pet(), pet()]))  # none of them
        ids += await storage.write(Add([pet(), pet()]))
        # Calls that need no room go on.
        assert await storage.write(Add([pet(idempotency_key="7")])) == [ids[7]]
        await storage.write(Update([pet("changed", id=ids[0])]))
        both = await asyncio.gather(
            storage.write(Add([pet()])), storage.write(Delete([*ids[:2], "none"])), return_exceptions=True
        )
        assert isinstance(both[0], StoreFull)
        assert len(await storage.write(Add([pet(), pet()]))) == 2
        with pytest.raises(StoreFull):
            await storage.write(Add([pet()]))


async def test_storage_refuses_bytes_above_its_capacity():
    async with Storage(None, Capacity(data_bytes=300_000)) as storage:
        ids: list[str] = []
        with pytest.raises(StoreFull, match=r"it may have 300000 bytes \(--max-data-size\)"):
            await storage.write(Add([pet(LONG)] * 1000))  # none of them
        for _ in range(30):
            ids += await storage.write(Add([pet(LONG)]))
        with pytest.raises(StoreFull):
            await storage.write(Add([pet(LONG)] * 100))
        await storage.write(Delete(ids[:20]))
        assert len(await storage.write(Add([pet(LONG)] * 15))) == 15
        with pytest.raises(StoreFull):
            await storage.write(Update([pet("y" * 100_000, id=identity) for identity in ids[20:]]))
        await storage.write(Update([pet("short", id=identity) for identity in ids[20:]]))
