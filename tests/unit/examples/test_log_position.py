"""A log is read again from a second on, as servers do it; what is shown has to be each line once."""

from __future__ import annotations

import random

from examples.workloads.log_position import LogPosition


def stamped(second: int, fraction: int, text: str) -> bytes:
    return f"2026-11-21T12:00:{second:02}.{fraction:09}Z {text}".encode()


def served(log: list[bytes], query: dict[str, str]) -> list[bytes]:
    """What a server answers: it knows whole seconds only."""
    since = query.get("sinceTime", "")[:19].encode()
    return [line for line in log if line[:19] >= since]


def read(position: LogPosition, lines: list[bytes]) -> list[str]:
    return [text.decode() for line in lines if (text := position.advance(line)) is not None]


def test_log_position_advance_strips_timestamp():
    assert LogPosition().advance(stamped(1, 5, "  two words ")) == b"  two words "
    assert LogPosition().advance(b"2026-11-21T12:00:01+01:00 zone") == b"zone"


def test_reading_begins_at_the_beginning_and_goes_on_at_the_last_second():
    position = LogPosition()
    assert position.resume() == {}
    read(position, [stamped(1, 1, "a"), stamped(3, 999, "b")])
    assert position.resume() == {"sinceTime": "2026-11-21T12:00:03Z"}


def test_lines_that_are_equal_are_all_shown_and_none_twice():
    position, line = LogPosition(), stamped(1, 1, "again")
    position.resume()
    assert read(position, [line, line]) == ["again", "again"]
    position.resume()
    assert read(position, [line, line, line]) == ["again"]


def test_lines_that_were_rotated_away_do_not_hide_those_that_follow():
    position = LogPosition()
    position.resume()
    read(position, [stamped(1, 1, "a"), stamped(1, 2, "b")])
    position.resume()
    assert read(position, [stamped(1, 2, "b"), stamped(1, 3, "c")]) == ["c"]


def test_log_position_shows_line_without_timestamp_once():
    position, complaint = LogPosition(), b"unable to retrieve container logs"
    for expected in ([complaint.decode()], [], []):
        position.resume()
        assert read(position, [complaint]) == expected


def test_log_position_resumes_without_loss_or_repetition_after_cuts():
    rng = random.Random(5)
    for _ in range(200):
        # Two streams of a container, whose lines are not quite in the order of their times.
        texts = [rng.choice("xyz") for _ in range(40)]
        times = sorted(rng.randrange(5 * 10) for _ in texts)
        log = [
            stamped(time // 10, time % 10 + rng.choice((0, 1)), text)
            for time, text in zip(times, texts, strict=True)
        ]
        position, shown, there = LogPosition(), list[str](), 0
        while len(shown) < len(log):
            there = min(len(log), there + rng.randrange(10))
            answer = served(log[:there], position.resume())
            shown += read(position, answer[: rng.randrange(len(answer) + 1)])
        assert shown == texts
