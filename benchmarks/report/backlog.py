"""Programs that fall behind, by rate of new objects."""

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
# A program falls behind if its backlog at the end exceeds so many seconds of new objects.
SECONDS = 0.5


def behind(results: Results, peer: str, group: Group) -> bool | None:
    """Return whether a peer falls behind at a rate; None if not measured."""
    summary = summarize(results, LATENCY, peer, f"{group.key}.behind")
    return None if summary is None else summary.median > SECONDS * rate_of(group)


def falling(results: Results) -> Iterator[tuple[Group, str, str]]:
    """Yield every rate and peer that falls behind, with a text about it."""
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
    """Return a group's rate of new objects per second."""
    return int(group.key.removeprefix("at_"))
