"""Telling people by Events what was done to an object's children, once for each time it was done."""

from __future__ import annotations

from typing import Any

from manager.api import Resource
from manager.client import Applied, Outcome
from manager.events import EventRecorder

__all__ = ["announce"]


def announce(
    events: EventRecorder,
    owner: Resource,
    applied: Applied[Any],
    *,
    observed_generation: int | None,
    created: str = "",
    changed: tuple[str, str] | None = None,
) -> None:
    """Say on `owner` what an apply of its child did; nothing when that was nothing.

    Args:
        events: takes the Event.
        owner: whom it is about.
        applied: what the apply answered.
        observed_generation: the generation that the owner's status was made for. Where it is the present
            one, nobody asked for anything new, so a change means that somebody changed what is ours.
        created: what to say of a new child beyond its name, such as ` with 3 replicas`.
        changed: reason and message for a change that the owner asked for, better than `Updated`.
    """
    child: Resource = applied.object
    name = f"{child.gvk.kind} {child.metadata.name}"
    if applied.outcome is Outcome.CREATED:
        events.event(owner, "Normal", "Created", f"Created {name}{created}")
    elif applied.outcome is Outcome.UPDATED:
        if owner.metadata.generation == observed_generation:
            events.event(owner, "Normal", "Restored", f"Put {name} back as it should be")
        else:
            events.event(owner, "Normal", *(changed or ("Updated", f"Updated {name}")))
