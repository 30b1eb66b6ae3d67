"""A run ends in the time that it has, and says what it left out."""

from __future__ import annotations

from benchmarks.budget import Budget


class Clock:
    """Goes on only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_all_rounds_run_where_there_is_time():
    said: list[str] = []
    assert list(Budget(100, said.append, clock=Clock()).rounds(3, 30, "cold starts")) == [1, 2, 3]
    assert said == []


def test_a_round_that_does_not_fit_is_left_out_and_named():
    clock, said, seen = Clock(), [], []
    budget = Budget(100, said.append, clock=clock)
    for number in budget.rounds(3, 30, "cold starts"):
        seen.append(number)
        clock.now += 45  # slower than usual, so that two take 90 of 100 seconds
    assert seen == [1, 2]
    assert said == ["left out, as the time is up: cold starts, from round 3 on"]


def test_what_comes_after_keeps_its_time():
    clock, seen = Clock(), []
    for number in Budget(100, lambda what: None, clock=clock).rounds(3, 20, "cold starts", after=50):
        seen.append(number)
        clock.now += 20
    assert seen == [1, 2]


def test_one_round_is_always_run():
    assert list(Budget(1, lambda what: None, clock=Clock()).rounds(3, 20, "cold starts")) == [1]
