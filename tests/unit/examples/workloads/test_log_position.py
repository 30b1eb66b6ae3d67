"""`LogPosition` when the log server can resume only at whole seconds."""

from __future__ import annotations

import random
from datetime import datetime

from examples.workloads.log_position import LogPosition


def stamped(second: int, fraction: int, text: str) -> str:
    return f"2026-11-21T12:00:{second:02}.{fraction:09}Z {text}"


def served(log: list[str], since: datetime | None) -> list[str]:
    """Return the lines since the start of the second that contains `since`; all lines if `since` is None."""
    first = "" if since is None else since.strftime("%Y-%m-%dT%H:%M:%S")
    return [line for line in log if line[:19] >= first]


def read(position: LogPosition, lines: list[str]) -> list[str]:
    return [text for line in lines if (text := position.advance(line)) is not None]


def test_log_position_neither_loses_nor_repeats_a_line_when_streams_are_cut():
    assert LogPosition().advance("2026-11-21T12:00:01+01:00  zone ") == " zone "
    rng = random.Random(5)
    for _ in range(200):
        # Lines of stdout and stderr of a container, whose times are not always in order.
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
