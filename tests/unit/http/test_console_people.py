"""What users have of the console, of which there is little, however many there are."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from manager.console.people import LinesByUser, sharer
from manager.server.reviews import User

pytestmark = pytest.mark.virtual_time


async def test_lines_of_the_log_are_few_however_many_users_take_turns():
    lines, told = LinesByUser(per_minute=10, most=3), Counter[str]()
    for _ in range(100):
        for who in "abcdef":
            lines.of(who).tell(lambda _, by: told.update(by), "acts", by=who)
    assert [told[who] for who in "abc"] == [10, 10, 10]
    assert sum(told[who] for who in "def") == 10


async def test_lines_by_user_replaces_a_user_that_was_silent_for_a_minute():
    lines = LinesByUser(per_minute=10, most=2)
    first, _, third = (lines.of(who) for who in "abc")
    await asyncio.sleep(40)
    assert lines.of("a") is first
    assert lines.of("d") is third
    await asyncio.sleep(30)
    assert lines.of("d") is not third
    assert lines.of("a") is first


def test_accounts_of_a_namespace_share_and_people_do_not():
    names = [
        "system:serviceaccount:shop:a",
        "system:serviceaccount:shop:b",
        "system:serviceaccount:bank:a",
        "ann",
    ]
    one, other, *others = (sharer(User(name)) for name in names)
    assert one == other
    assert len({one, *others}) == 3
