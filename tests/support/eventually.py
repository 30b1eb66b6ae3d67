"""Assertions that poll until a real process or server has reached a state.

A test in virtual time does not need them: it can wait exactly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

# A failed `pytest.raises` is no Exception; a skip must not be retried.
_WRONG = (Exception, pytest.fail.Exception)

# Limit for slow and busy machines; it is no requirement for speed.
WITHIN = 90.0
EVERY = 0.1


class NeverHappened(AssertionError):
    """Error at the deadline, with the last failure in its message."""


def eventually(check: Callable[[], T], *, within: float = WITHIN, every: float = EVERY) -> T:
    """Call `check` until it raises nothing and does not return False; return its result.

    A result of None counts as success, so a check that consists of asserts needs no return.

    Args:
        check: the function to call.
        within: seconds until giving up.
        every: seconds between two calls.

    Raises:
        NeverHappened: with the last failure as its cause and in its message.
    """
    deadline = time.monotonic() + within
    while True:
        failure: BaseException | None = None
        try:
            result = check()
        except _WRONG as error:  # whatever it is, it is the reason to try again
            failure = error
        else:
            if result is not False:
                return result
        if time.monotonic() >= deadline:
            raise _never(within, failure) from failure
        time.sleep(every)


async def eventually_async(
    check: Callable[[], Awaitable[T]], *, within: float = WITHIN, every: float = EVERY
) -> T:
    """Await `check()` repeatedly, as `eventually` does; cancel a call that still runs at the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    failure: BaseException | None = None
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                try:
                    result = await check()
                except _WRONG as error:  # whatever it is, it is the reason to try again
                    failure = error
                else:
                    if result is not False:
                        return result
                    failure = None
                await asyncio.sleep(every)
    except TimeoutError:
        raise _never(within, failure) from failure


def consistently(check: Callable[[], object], *, during: float, every: float = EVERY) -> None:
    """Assert that `check` raises nothing and never returns False during this number of seconds."""
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert check() is not False, f"{_name(check)} stopped being true"
        time.sleep(every)


def _never(within: float, failure: BaseException | None) -> NeverHappened:
    reason = "the check returned False" if failure is None else f"{type(failure).__name__}: {failure}"
    return NeverHappened(f"not within {within:g} s; last: {reason}")


def _name(check: Callable[[], object]) -> str:
    return getattr(check, "__qualname__", repr(check))
