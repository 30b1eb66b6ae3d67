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


def test_a_lower_priority_waits_while_it_is_fresh(ready: ReadyItems[str]):
    push(ready, "low", Priority.LOW, since=0)
    for number in range(100):
        push(ready, f"normal {number}", Priority.NORMAL, since=0)
    taken = [ready.pop(now=AGEING - 0.1).key for _ in range(101)]
    assert taken[-1] == "low"


def test_an_aged_item_gets_its_turn_however_much_arrives_above_it(ready: ReadyItems[str]):
    push(ready, "low", Priority.LOW, since=0)
    turns = 0
    while True:
        push(ready, f"normal {turns}", Priority.NORMAL, since=AGEING)
        turns += 1
        if ready.pop(now=AGEING).key == "low":
            break
    assert turns == AGED_TURN


def test_aged_items_get_one_turn_in_so_many_and_the_rest_goes_to_what_is_fresh(ready: ReadyItems[str]):
    for number in range(1000):
        push(ready, f"low {number}", Priority.LOW, since=0)
    taken = []
    for number in range(10 * AGED_TURN):
        push(ready, f"normal {number}", Priority.NORMAL, since=AGEING)
        taken.append(ready.pop(now=AGEING).key)
    low = [key for key in taken if key.startswith("low")]
    assert low == [f"low {number}" for number in range(10)]


def test_the_longest_waiting_of_the_lower_priorities_goes_first(ready: ReadyItems[str]):
    push(ready, "low", Priority.LOW, since=1)
    push(ready, "normal", Priority.NORMAL, since=0)
    for number in range(2 * AGED_TURN):
        push(ready, f"high {number}", Priority.HIGH, since=50)
    taken = [ready.pop(now=50).key for _ in range(2 * AGED_TURN)]
    assert [key for key in taken if not key.startswith("high")] == ["normal", "low"]


def test_an_item_with_others_in_front_gets_its_turn_within_the_promised_bound(ready: ReadyItems[str]):
    in_front = 5
    for number in range(in_front):
        push(ready, f"low {number}", Priority.LOW, since=0)
    push(ready, "last", Priority.LOW, since=0)
    turns = 0
    while True:
        push(ready, f"high {turns}", Priority.HIGH, since=AGEING)
        turns += 1
        if ready.pop(now=AGEING).key == "last":
            break
    assert turns <= AGED_TURN * (in_front + 1)


def test_a_raised_item_joins_the_end_of_its_new_priority(ready: ReadyItems[str]):
    push(ready, "a", Priority.LOW, since=0)
    push(ready, "b", Priority.NORMAL, since=0)
    item = QueueItem("c", Priority.LOW)
    ready.push(item)
    ready.raise_priority(item, Priority.NORMAL)
    assert len(ready) == 3
    assert (ready.depth(Priority.LOW), ready.depth(Priority.NORMAL)) == (1, 2)
    assert [ready.pop(now=0).key for _ in range(3)] == ["b", "c", "a"]


def test_taking_from_nothing_is_a_mistake(ready: ReadyItems[str]):
    with pytest.raises(KeyError):
        ready.pop(now=0)


def test_nothing_is_left_after_it_was_cleared(ready: ReadyItems[str]):
    push(ready, "a", Priority.LOW, since=0)
    push(ready, "b", Priority.HIGH, since=0)
    ready.clear()
    assert len(ready) == 0
    assert not any(ready.depth(priority) for priority in Priority)
