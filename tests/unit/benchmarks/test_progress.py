from __future__ import annotations

import io

import pytest

from benchmarks.budget import Budget
from benchmarks.failures import reason_of
from benchmarks.progress import Progress, minutes
from tests.support.daemon import DaemonDied


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.9, "1:05"), (3600, "60:00")])
def test_time_is_shown_as_a_clock_does(seconds: float, text: str):
    assert minutes(seconds) == text


def test_progress_prints_one_line_per_step_to_a_pipe():
    stream = io.StringIO()
    progress = Progress(60, stream)
    progress.step(1, "bare", "cold start", 30)
    progress.step("", "all", "takeover", 30)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("[  0%] 0:00 gone, about 1:00 to go: round 1, bare: cold start")
    assert second.startswith("[ 50%]")
    assert second.endswith("to go: all: takeover")


def test_progress_overwrites_one_line_on_a_terminal():
    stream = Terminal()
    progress = Progress(60, stream)
    progress.step(1, "bare", "cold start", 30)
    progress.note("kopf, round 1: not ready")
    progress.end()
    assert stream.getvalue().count("\n") == 2
    assert "\r\x1b[Kkopf, round 1: not ready\n" in stream.getvalue()


def test_progress_stays_at_100_percent_when_more_steps_than_expected_run():
    stream = io.StringIO()
    progress = Progress(10, stream)
    for _ in range(3):
        progress.step(1, "bare", "cold start", 10)
    assert "[100%]" in stream.getvalue().splitlines()[-1]
    assert "about 0:00 to go" in stream.getvalue().splitlines()[-1]


LOG = "; the end of its log /tmp/x.log:\nstarting\nerror: no such flag\n"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DaemonDied(f"kopf ended with 2{LOG}"), "kopf ended with 2: error: no such flag"),
        (TimeoutError(f"kopf: not ready within 30 s{LOG}"), "kopf: not ready within 30 s"),
        (ExceptionGroup("several", [OSError("the first"), OSError("the second")]), "the first"),
        (ConnectionResetError(), "ConnectionResetError"),
        (OSError("x" * 1000), "x" * 159 + "…"),
    ],
    ids=["the last words", "of who lives none", "the first of several", "without words", "short"],
)
def test_reason_of_shortens_error_to_footnote_length(error: Exception, reason: str):
    assert reason_of(error) == reason


class Clock:
    """Goes on only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_budget_allows_all_rounds_when_time_suffices():
    said: list[str] = []
    assert list(Budget(100, said.append, clock=Clock()).rounds(3, 30, "cold starts")) == [1, 2, 3]
    assert said == []


def test_budget_drops_and_names_rounds_that_do_not_fit():
    clock, said, seen = Clock(), [], []
    budget = Budget(100, said.append, clock=clock)
    for number in budget.rounds(3, 30, "cold starts"):
        seen.append(number)
        clock.now += 45  # slower than usual, so that two take 90 of 100 seconds
    assert seen == [1, 2]
    assert said == ["left out, as the time is up: cold starts, from round 3 on"]


def test_budget_drops_rounds_to_reserve_time_for_later_parts():
    clock, seen = Clock(), []
    for number in Budget(100, lambda what: None, clock=clock).rounds(3, 20, "cold starts", after=50):
        seen.append(number)
        clock.now += 20
    assert seen == [1, 2]


def test_budget_allows_one_round_when_time_is_too_short():
    assert list(Budget(1, lambda what: None, clock=Clock()).rounds(3, 20, "cold starts")) == [1]
