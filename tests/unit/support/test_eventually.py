from __future__ import annotations

import asyncio

import pytest

from tests.support.eventually import (
    WITHIN,
    NeverHappened,
    consistently,
    eventually,
    eventually_async,
)


def test_the_result_of_the_first_good_try_is_returned():
    tries = iter([ValueError("not yet"), False, "done"])

    def check() -> object:
        result = next(tries)
        if isinstance(result, Exception):
            raise result
        return result

    assert eventually(check, every=0) == "done"


def test_plain_asserts_need_no_return():
    assert eventually(lambda: None) is None


def test_the_message_has_the_last_failure():
    def check() -> None:
        assert [] == ["pod"], "no pod yet"

    with pytest.raises(NeverHappened, match="not within 0 s; last: AssertionError: no pod yet"):
        eventually(check, within=0)


def test_a_check_that_stays_false_is_named_so():
    with pytest.raises(NeverHappened, match="the check returned False"):
        eventually(lambda: False, within=0)


@pytest.mark.virtual_time
async def test_an_awaiting_check_that_hangs_is_given_up():
    tries = 0

    async def check() -> bool:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("the first time")
        await asyncio.Event().wait()
        return True

    with pytest.raises(NeverHappened, match=rf"not within {WITHIN:g} s; last: ValueError: the first time"):
        await eventually_async(check)


def test_consistently_fails_when_a_check_stops_being_true():
    results = iter([True, True, False])
    with pytest.raises(AssertionError, match="stopped being true"):
        consistently(lambda: next(results), during=60, every=0)


def test_an_exception_that_does_not_come_yet_is_waited_for():
    tries = iter((lambda: None, lambda: {}["missing"]))

    def fails() -> None:
        with pytest.raises(KeyError):
            next(tries)()

    eventually(fails, every=0.0)
