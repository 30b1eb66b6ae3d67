"""Faults of a process, of its network, and of the API server as the process sees it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from manager_tools.simulation.workload import Seconds

KINDS_OF_FAULT: dict[str, tuple[float, str]] = {
    "kill": (3, "{manager} is killed"),
    "stop": (2, "{manager} is told to end"),
    "scale": (3, "{manager} is told to end, and comes back {seconds} after that"),
    "mode": (2, "managers are told to end in turn, and lead or wait, instead of sharing, for {seconds}"),
    "reborn": (3, "{manager} is killed, and the next one reads states of {seconds} ago"),
    "freeze": (2, "{manager} is frozen for {seconds}"),
    "cut": (2, "all connections of {manager} break"),
    "refusing": (1, "{manager} can make no connection for {seconds}"),
    "silent": (2, "the connections of {manager} carry nothing for {seconds}"),
    "loss": (3, "{size} of the bytes from and to {manager} is lost for {seconds}"),
    "refusals": (3, "{size} of the requests of {manager} are refused (429, 500, 503) for {seconds}"),
    "slow": (2, "the server takes seconds for each request of {manager} for {seconds}"),
    "lag": (3, "watches of {manager} are {seconds} behind"),
    "torn": (2, "{size} of what watches of {manager} bring breaks off within a line for {seconds}"),
    "twice": (1, "{size} of the writes of {manager} arrive twice for {seconds}"),
    "skips": (2, "watches of {manager} carry nothing for {seconds}, and then only the last states"),
    "behind": (3, "{manager} reads from two API servers for {seconds}, and the second one is behind"),
    "stale": (2, "lists of {manager} are {seconds} behind, and are not streamed"),
    "compact": (2, "{manager} hears nothing for {seconds}; then the history has expired (410)"),
    "no_bookmarks": (1, "watches of {manager} get no bookmarks for {seconds}"),
    "power": (2, "the cluster is killed, and started from its disk {seconds} later"),
    "backup": (1, "the cluster is killed, and started {seconds} later with a backup of its disk"),
    "rights": (1, "managers have no rights for {seconds}"),
    "some_rights": (2, "managers have not all of their rights for {seconds} (403)"),
    "definition": (
        1,
        "a kind's definition is deleted, and comes back {seconds} after all of it has gone",
    ),
    "token": (2, "the token of managers is replaced, and they can read the new one {seconds} later (401)"),
    "untrusted": (1, "the API server does not trust the webhooks' certificate of {manager} for {seconds}"),
    "secret": (2, "another client deletes or spoils the Secret with the webhooks' certificates"),
    "bundle": (1, "another client spoils the CA bundles of a webhook configuration or definition"),
    "keepers": (1, "the Secret is deleted, and all managers make certificates for {seconds}"),
    "jump": (2, "the wall clock of {manager} jumps, and back {seconds} later"),
    "server_jump": (1, "the wall clock of the API server jumps, and back {seconds} later"),
    "drift": (1, "the clocks of {manager} go at another rate for {seconds}"),
}
"""What goes wrong: how often, and in words."""

OF_CERTIFICATES = frozenset({"secret", "bundle", "keepers"})
"""What goes wrong only where managers keep certificates."""
ALONE = tuple(each for each in KINDS_OF_FAULT if each not in {"scale", "mode"})
"""What goes wrong where one manager works: fewer of them, or one that leads, make no difference then."""
NO_EXCUSE = frozenset({"secret", "keepers"})
"""In spite of which each webhook is trusted at every moment."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at a time, for a while, in virtual seconds; `size` is a part of requests."""

    at: Seconds
    what: Annotated[str, Meta(pattern=f"^({'|'.join(KINDS_OF_FAULT)})$")]
    replica: Annotated[int, Meta(ge=0)]
    seconds: Seconds
    size: Annotated[float, Meta(ge=0, le=1)] = 0.0
    draw: Annotated[int, Meta(ge=0)] = 0
    """Seeds what else is drawn for it."""

    def __str__(self) -> str:
        words = KINDS_OF_FAULT[self.what][1]
        seconds, size = f"{self.seconds:.1f} s", f"{self.size:.0%}"
        return words.format(manager=f"manager-{self.replica}", seconds=seconds, size=size)


def faults(
    rng: random.Random,
    replicas: int,
    *,
    seconds: float,
    count: int,
    near: Sequence[float],
    kinds: Sequence[str] = ALONE,
) -> list[Fault]:
    """Draw the faults of a run, half of them about one of the times `near`."""
    weights = [KINDS_OF_FAULT[kind][0] for kind in kinds]
    made = [
        Fault(
            at=_when(rng, seconds, near),
            what=rng.choices(kinds, weights)[0],
            replica=rng.randrange(replicas),
            seconds=rng.choice((1.0, 5.0, 20.0, 60.0)) * rng.uniform(0.5, 1.5),
            size=rng.choice((0.05, 0.3, 0.8)),
            draw=rng.getrandbits(64),
        )
        for _ in range(count)
    ]
    return sorted(made, key=lambda fault: fault.at)


def _when(rng: random.Random, seconds: float, near: Sequence[float]) -> float:
    if near and rng.random() < 0.5:  # noqa: PLR2004 - half
        return max(0.0, rng.choice(near) - rng.choice((0.0, 0.002, 0.5, 5.0, -0.05, -0.5)))
    return rng.uniform(0.0, seconds)
