"""Assignment of shards to replicas: fair, complete, and with as few moves as possible."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.shards.balance import balance

COUNTS = st.sampled_from([2**power for power in range(9)])
HOW_FAR = st.sampled_from(("not yet", "released", "taken"))
MEMBERS = st.sets(st.text("abcdefghij", min_size=1, max_size=3), min_size=1, max_size=12)


def moved(before: dict[int, str], after: dict[int, str]) -> set[int]:
    return {number for number in before if before[number] != after[number]}


@st.composite
def scenes(draw: st.DrawFn) -> tuple[int, set[str], dict[int, str]]:
    """Draw a number of shards, the present replicas, and the holders, absent ones among them."""
    count, members = draw(COUNTS), draw(MEMBERS)
    anybody = st.sampled_from([*sorted(members), "gone", "gone too"])
    return count, members, draw(st.dictionaries(st.integers(0, count - 1), anybody))


@given(scenes())
def test_balance_gives_out_all_ranges_in_shares_that_differ_by_one_at_most(
    scene: tuple[int, set[str], dict[int, str]],
):
    count, members, holders = scene
    wanted = balance(count, members, holders)
    assert sorted(wanted) == list(range(count))
    shares = [list(wanted.values()).count(member) for member in members]
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1


@given(scenes())
def test_balance_takes_as_few_ranges_as_possible_from_members(scene: tuple[int, set[str], dict[int, str]]):
    count, members, holders = scene
    wanted = balance(count, members, holders)
    sizes = sorted(list(holders.values()).count(member) for member in members)
    share, larger = divmod(count, len(members))
    # The fewest there can be: those who have most are allowed most.
    allowed = sorted([share + 1] * larger + [share] * (len(members) - larger))
    fewest = sum(max(0, has - may) for has, may in zip(sizes, allowed, strict=True))
    given_up = [number for number, who in holders.items() if who in members and wanted[number] != who]
    assert len(given_up) == fewest


@given(scenes(), st.randoms(use_true_random=False))
def test_balance_does_not_depend_on_the_order_of_its_arguments(
    scene: tuple[int, set[str], dict[int, str]], rng: random.Random
):
    count, members, holders = scene
    shuffled, entries = sorted(members), list(holders.items())
    rng.shuffle(shuffled)
    rng.shuffle(entries)
    assert balance(count, shuffled, dict(entries)) == balance(count, members, holders)


@given(scenes())
def test_balance_changes_nothing_when_ranges_are_balanced(scene: tuple[int, set[str], dict[int, str]]):
    count, members, holders = scene
    wanted = balance(count, members, holders)
    assert balance(count, members, wanted) == wanted


@given(scenes(), st.data())
def test_balance_stays_the_same_while_ranges_move_towards_it(
    scene: tuple[int, set[str], dict[int, str]], data: st.DataObject
):
    """Else replicas that start list again and again what they are to have now, and have it never."""
    count, members, holders = scene
    wanted = balance(count, members, holders)
    for number, who in wanted.items():
        match data.draw(HOW_FAR):
            case "released" if holders.get(number) != who:
                holders.pop(number, None)
            case "taken":
                holders[number] = who
    assert balance(count, members, holders) == wanted


@given(COUNTS.filter(lambda count: count > 2), MEMBERS, st.text("xyz", min_size=1, max_size=3))
def test_balance_moves_ranges_only_to_a_newcomer(count: int, members: set[str], newcomer: str):
    before = balance(count, members, {})
    after = balance(count, members | {newcomer}, before)
    assert {after[number] for number in moved(before, after)} <= {newcomer}
    assert len(moved(before, after)) <= -(-count // (len(members) + 1))


@given(COUNTS, MEMBERS.filter(lambda members: len(members) > 1), st.data())
def test_balance_moves_only_the_ranges_of_a_leaver(count: int, members: set[str], data: st.DataObject):
    before = balance(count, members, {})
    leaver = data.draw(st.sampled_from(sorted(members)))
    after = balance(count, members - {leaver}, before)
    assert moved(before, after) == {number for number, who in before.items() if who == leaver}


@pytest.mark.parametrize("count", [4, 8, 16, 32, 64, 128, 256])
def test_balance_moves_less_than_half_of_the_ranges_from_two_members_to_three(count: int):
    before = balance(count, {"a", "b"}, {})
    assert len(moved(before, balance(count, {"a", "b", "c"}, before))) < count / 2


def test_balance_gives_out_all_ranges_when_number_and_names_of_members_change():
    three = balance(16, {"a-1", "a-2", "a-3"}, {})
    five = balance(16, {"b-1", "b-2", "b-3", "b-4", "b-5"}, three)
    two = balance(16, {"c-1", "c-2"}, five)
    for wanted, most in ((three, 6), (five, 4), (two, 8)):
        assert sorted(wanted) == list(range(16))
        assert max(list(wanted.values()).count(who) for who in wanted.values()) == most


def test_balance_gives_out_nothing_without_members():
    assert balance(16, (), {1: "a"}) == {}
