from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.util.backoff import Backoff, ExponentialDelay


def backoff(*, jitter: float = 0.0, base: float = 1.0, cap: float = 10.0) -> Backoff:
    return Backoff(base=base, cap=cap, jitter=jitter, rng=random.Random(1))


def test_backoff_delays_double_up_to_the_cap_and_restart_after_reset():
    delays = backoff()
    assert [delays.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    delays.reset()
    assert [delays.next() for _ in range(2)] == [1, 2]
    assert delays.failures == 2


def test_backoff_delays_at_the_cap_still_have_jitter():
    delays = backoff(jitter=0.5)
    late = [delays.next() for _ in range(100)][50:]
    assert len(set(late)) == 50
    assert max(late) - min(late) > 2


@given(
    base=st.floats(1e-6, 10),
    growth=st.floats(1, 1e6),
    jitter=st.floats(0, 2),
    failures=st.integers(0, 10**9),
    seed=st.integers(0, 100),
)
def test_exponential_delay_never_exceeds_the_cap_and_is_below_base_at_most_by_its_jitter(
    base: float, growth: float, jitter: float, failures: int, seed: int
):
    cap = base * growth
    delay = ExponentialDelay(base=base, cap=cap, jitter=jitter, rng=random.Random(seed))
    slack = 1 + 1e-9
    assert min(base, cap / (1 + jitter)) / slack <= delay(failures) <= cap * slack


@pytest.mark.parametrize(
    "wrong",
    [{"base": 0.0}, {"base": 2.0, "cap": 1.0}, {"cap": math.inf}, {"jitter": -0.1}, {"base": math.nan}],
)
def test_exponential_delay_refuses_invalid_numbers(wrong: dict[str, float]):
    with pytest.raises(ValueError, match="back-off needs"):
        ExponentialDelay(**{"base": 1.0, "cap": 2.0, **wrong}, rng=random.Random(1))
