from __future__ import annotations

import random

from manager.controller.queue import KeyBackoff


def test_key_backoff_grows_separately_for_each_key(rng: random.Random):
    backoff = KeyBackoff[str](base=1, cap=100, jitter=0, rng=rng)
    delays = [
        backoff.next_delay("a", now=0),
        backoff.next_delay("a", now=1),
        backoff.next_delay("b", now=1),
    ]
    assert delays == [1, 2, 1]
    assert (backoff.retries("a"), backoff.retries("b"), backoff.retries("c")) == (2, 1, 0)


def test_key_backoff_returns_the_rest_of_a_wait_that_was_cut_short(rng: random.Random):
    backoff = KeyBackoff[str](base=8, cap=100, jitter=0, rng=rng)
    assert backoff.next_delay("a", now=10) == 8
    assert [backoff.next_delay("a", now=now) for now in (11, 12, 17)] == [7, 6, 1]
    assert backoff.retries("a") == 1
    assert backoff.next_delay("a", now=18) == 16


def test_key_backoff_starts_over_for_a_forgotten_key(rng: random.Random):
    backoff = KeyBackoff[str](base=1, cap=100, jitter=0, rng=rng)
    backoff.next_delay("a", now=0)
    backoff.forget("a")
    backoff.forget("never seen")
    assert len(backoff) == 0
    assert backoff.next_delay("a", now=0) == 1


def test_key_backoff_defaults_to_5_milliseconds_up_to_1000_seconds(rng: random.Random):
    backoff = KeyBackoff[str](rng=rng)
    now, delays = 0.0, []
    for _ in range(40):
        delays.append(backoff.next_delay("a", now=now))
        now += delays[-1]
    assert 0.005 <= delays[0] <= 0.0055
    assert 900 <= delays[-1] <= 1000
