from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devcluster.storage import Key, Store
from devcluster.storage.records import Exists, Expired, Missing, Overflow, VersionConflict


def key(name: str, namespace: str = "ns", plural: str = "things") -> Key:
    return Key("", plural, namespace, name)


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": {"name": name}}, **fields}


def names(store: Store, namespace: str = "") -> list[str]:
    return [stored.key.name for stored in store.select("", "things", namespace)]


def test_decode_of_a_stored_object_returns_a_new_object_each_time():
    store = Store()
    stored = store.create(key("a"), thing("a", list=[1]))
    stored.decode()["list"].append(2)
    assert stored.decode()["list"] == [1]


def test_store_refuses_create_of_an_existing_and_update_of_a_missing_or_changed_object():
    store = Store()
    first = store.create(key("a"), thing("a"))
    with pytest.raises(Exists):
        store.create(key("a"), thing("a"))
    store.update(key("a"), thing("a", n=1), expected=first.version)
    with pytest.raises(VersionConflict):
        store.update(key("a"), thing("a", n=2), expected=first.version)
    with pytest.raises(VersionConflict):
        store.delete(key("a"), expected=first.version)
    with pytest.raises(Missing):
        store.update(key("b"), thing("b"))
    with pytest.raises(Missing):
        store.delete(key("b"))


def test_store_writes_an_update_that_swaps_1_and_true_and_skips_an_update_that_only_sorts_fields():
    store = Store()
    first = store.create(key("a"), thing("a", x=1, y=True))
    second = store.update(key("a"), thing("a", x=True, y=1))
    assert second.version > first.version
    assert store.update(key("a"), thing("a", y=1, x=True)) is second


def test_store_lists_an_earlier_version_until_the_history_expires():
    store = Store()
    store.create(key("a"), thing("a"))
    store.create(key("b"), thing("b", n=1))
    then = store.version
    store.update(key("b"), thing("b", n=2))
    store.delete(key("a"))
    store.create(key("c"), thing("c"))
    store.create(key("d", "other"), thing("d"))
    earlier = store.select_at(then, "", "things")
    assert [(each.key.name, each.decode().get("n")) for each in earlier] == [("a", None), ("b", 1)]
    assert names(store) == ["b", "c", "d"]
    store.expire_history()
    with pytest.raises(Expired) as raised:
        store.select_at(then, "", "things")
    assert raised.value.oldest == store.version
    with pytest.raises(Expired):
        store.watch("", "things", since=store.version - 1)
    store.watch("", "things", since=store.version).close()


def test_store_history_is_limited_in_number_and_size_of_changes():
    store = Store(history=10)
    for number in range(100):
        store.create(key(f"n{number}"), thing(f"n{number}"))
    assert 10 <= store.version - store.oldest <= 12
    store = Store(history_bytes=10_000)
    for number in range(100):
        store.create(key(f"n{number}"), thing(f"n{number}", text="x" * 1000))
    assert 8 <= store.version - store.oldest <= 11


async def test_store_watch_replays_past_changes_and_then_sends_new_changes():
    store = Store()
    store.create(key("a"), thing("a"))
    since = store.version
    store.update(key("a"), thing("a", n=1))
    store.create(key("x", plural="others"), thing("x"))
    store.create(key("b", "other"), thing("b"))
    watch, everywhere = store.watch("", "things", "ns", since=since), store.watch("", "things", since=since)
    store.delete(key("a"))
    assert [change.version for change in await watch.next()] == [3, 6]
    assert [change.version for change in await everywhere.next()] == [3, 5, 6]
    reading = asyncio.create_task(watch.next())
    await asyncio.sleep(0)
    store.create(key("c"), thing("c"))
    (change,) = await reading
    assert change.old is None
    assert change.new is not None
    assert await watch.next(timeout=0) == []


async def test_store_watch_raises_overflow_when_its_reader_is_too_slow():
    store = Store(watch_backlog=3)
    watch = store.watch("", "things")
    for number in range(4):
        store.create(key(f"n{number}"), thing(f"n{number}"))
    with pytest.raises(Overflow):
        await watch.next()
    store.create(key("later"), thing("later"))
    with pytest.raises(Overflow):
        await watch.next()


async def test_store_watch_returns_no_more_changes_after_it_is_closed():
    store = Store()
    watch = store.watch("", "things")
    reading = asyncio.create_task(watch.next())
    await asyncio.sleep(0)
    watch.close()
    assert await reading == []
    assert await watch.next() == []
    store.create(key("a"), thing("a"))
    assert await watch.next() == []


async def test_store_watch_raises_overflow_when_unread_changes_exceed_the_byte_limit():
    store = Store(watch_backlog_bytes=10_000)
    watch = store.watch("", "things")
    store.create(key("a"), thing("a", text="x" * 20_000))
    assert len(await watch.next()) == 1
    for name in "bcd":
        store.create(key(name), thing(name, text="x" * 4_000))
    with pytest.raises(Overflow):
        await watch.next()


async def test_store_watch_can_replay_more_old_changes_than_its_backlog_limit():
    store = Store(watch_backlog=2)
    for name in "abcd":
        store.create(key(name), thing(name))
    watch = store.watch("", "things", since=1)
    store.create(key("e"), thing("e"))
    assert [change.key.name for change in await watch.next()] == list("abcde")
