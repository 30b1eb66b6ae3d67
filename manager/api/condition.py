"""Conditions: what a controller says about an object's state, one entry per aspect."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from manager.api.model import ApiModel
from manager.api.schema import Int64, required

ConditionStatus = Literal["True", "False", "Unknown"]

_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Condition(ApiModel):
    """One aspect of the current state of this object."""

    type: str = Field(max_length=316, pattern=_TYPE)
    """Aspect that the condition is about, in CamelCase or foo.example.com/CamelCase."""
    status: ConditionStatus
    """Whether the condition holds: True, False or Unknown."""
    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    """Generation of the object that the condition was set for. When metadata.generation is larger, the
    condition is out of date."""
    last_transition_time: Annotated[datetime | None, required()] = None
    """When the status last changed from one value to another."""
    reason: str = Field(min_length=1, max_length=1024, pattern=_REASON)
    """Why the condition last changed, as one CamelCase word for programs to compare."""
    message: Annotated[str, Field(max_length=32768), required()] = ""
    """Details of the last change, for people. May be empty."""


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:  # noqa: A002 - the field's name
    """Return the condition of that type, or None."""
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type: str) -> bool:  # noqa: A002 - the field's name
    """True when there is a condition of that type, and its status is True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.status == "True"


def set_condition(conditions: list[Condition], new: Condition, *, now: datetime) -> bool:
    """Put `new` in the place of the condition of its type, or at the end; return whether anything changed.

    `lastTransitionTime` moves to `now` (or to the time `new` carries) only when the status flips: else it
    stays, so that writing the same condition again changes nothing. The list keeps its order.
    """
    old = find_condition(conditions, new.type)
    if old is None or old.status != new.status or old.last_transition_time is None:
        # Whole seconds, as every timestamp of the API.
        moved = new.last_transition_time or now.replace(microsecond=0)
    else:
        moved = old.last_transition_time
    if old is not None and moved == old.last_transition_time and _says_the_same(old, new):
        return False
    # Whoever gives the time of now with the condition saves the copy, which costs as much as all the rest.
    placed = (
        new if new.last_transition_time == moved else new.model_copy(update={"last_transition_time": moved})
    )
    if old is None:
        conditions.append(placed)
    else:
        conditions[conditions.index(old)] = placed
    return True


def _says_the_same(old: Condition, new: Condition) -> bool:
    return (old.status, old.reason, old.message, old.observed_generation) == (
        new.status,
        new.reason,
        new.message,
        new.observed_generation,
    )
