"""Which programs fall behind at which rate of new objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import LONG, PARTS
from benchmarks.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.parts import Group
    from benchmarks.results import Results

__all__ = ["LATENCY", "behind", "falling", "rate_of"]

LATENCY = "latency"
# Who has more than so many seconds' worth of new objects waiting at the end does not keep up.
SECONDS = 0.5


def behind(results: Results, peer: str, group: Group) -> bool | None:
    """Whether a peer falls behind at a rate; None when that was not measured."""
    summary = summarize(results, LATENCY, peer, f"{group.key}.behind")
    return None if summary is None else summary.median > SECONDS * rate_of(group)


def falling(results: Results) -> Iterator[tuple[Group, str, str]]:
    """Every rate and peer that falls behind at it, and what to say of it."""
    run = results.run_of(LATENCY)
    for group in PARTS[LATENCY].groups:
        for peer in run.versions:
            if behind(results, peer, group):
                waiting = summarize(results, LATENCY, peer, f"{group.key}.behind")
                assert waiting is not None
                # Older runs had one time for all rates.
                seconds = run.sizes["seconds"]
                if rate_of(group) in LONG:
                    seconds = run.sizes.get("long_seconds", seconds)
                sent = round(rate_of(group) * seconds)
                yield group, peer, f"falls behind: {waiting.median:.0f} of {sent} waited at the end"


def rate_of(group: Group) -> int:
    """New objects a second."""
    return int(group.key.removeprefix("at_"))
