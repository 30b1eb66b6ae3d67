from __future__ import annotations

import pytest

from manager.controller.queue import AGED_TURN, QueueItem, ReadyItems
from manager.controller.reconciler import Priority

AGEING = 10.0


@pytest.fixture
def ready() -> ReadyItems[str]:
    return ReadyItems(ageing=AGEING)


def push(ready: ReadyItems[str], key: str, priority: Priority, *, since: float) -> None:
    item = QueueItem(key, priority)
    item.since = since
    ready.push(item)


def test_ready_items_give_aged_items_one_turn_in_aged_turn(ready: ReadyItems[str]):
    for number in range(1000):
        push(ready, f"low {number}", Priority.LOW, since=0)
    taken = []
    for number in range(10 * AGED_TURN):
        push(ready, f"normal {number}", Priority.NORMAL, since=AGEING)
        taken.append(ready.pop(now=AGEING).key)
    low = [key for key in taken if key.startswith("low")]
    assert low == [f"low {number}" for number in range(10)]


def test_ready_items_pop_the_longest_waiting_aged_item_first(ready: ReadyItems[str]):
    push(ready, "low", Priority.LOW, since=1)
    push(ready, "normal", Priority.NORMAL, since=0)
    for number in range(2 * AGED_TURN):
        push(ready, f"high {number}", Priority.HIGH, since=50)
    taken = [ready.pop(now=50).key for _ in range(2 * AGED_TURN)]
    assert [key for key in taken if not key.startswith("high")] == ["normal", "low"]


def test_ready_items_pop_raises_key_error_when_empty(ready: ReadyItems[str]):
    push(ready, "a", Priority.LOW, since=0)
    ready.pop(now=0)
    with pytest.raises(KeyError):
        ready.pop(now=0)
