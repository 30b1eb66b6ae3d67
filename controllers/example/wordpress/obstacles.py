"""What stands in a site's way: for now, or until a person does something."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RETRY_REFUSED", "Obstacle", "Trouble", "refused"]

RETRY_REFUSED = 300.0
"""How long to wait, in seconds, before asking again for what the API server has refused: a quota may have
been raised, or a storage class made expandable, and no event tells."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is not as wanted, while the rest of the site can be seen to."""

    reason: str
    """One word in CamelCase, for programs."""
    message: str
    """What is the matter, for people."""
    retry_after: float | None = None
    """Seconds after which to try again; None where an event tells that it is time."""


class Obstacle(Exception):
    """Something that has to change before the site can be built further.

    It is a state to report, not a failure to retry: when it changes, an event tells, or else the trouble says
    when to look again. `passing` is for what goes away by itself soon, and is worth no Event; `awaited` for
    what a person or the cluster is expected to bring.
    """

    def __init__(self, trouble: Trouble, *, passing: bool = False, awaited: bool = False) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble
        self.passing = passing
        self.awaited = awaited or passing


def refused(name: str, why: object) -> Obstacle:
    """The obstacle that the API server does not take a child: a quota, a webhook, a missing right."""
    return Obstacle(Trouble("Refused", f"{name} is refused: {why}", RETRY_REFUSED))
