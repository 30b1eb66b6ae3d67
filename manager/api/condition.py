"""Conditions: a controller's statements about an object's state, one entry per aspect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from manager.api.model import ApiModel
from manager.api.schema import Int64, required

ConditionStatus = Literal["True", "False", "Unknown"]

CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


_FIELDS = frozenset({"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"})


class Condition(ApiModel):
    """Aspect of the current state of this object."""

    type: str = Field(max_length=316, pattern=CONDITION_TYPE)
    """Aspect that the condition is about, in CamelCase or foo.example.com/CamelCase."""
    status: ConditionStatus
    """Whether the condition holds: True, False or Unknown."""
    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    """Generation of the object that the condition was set for. When metadata.generation is larger, the
    condition is out of date."""
    last_transition_time: Annotated[datetime | None, required()] = None
    """When the status last changed from one value to another."""
    reason: str = Field(min_length=1, max_length=1024, pattern=CONDITION_REASON)
    """Why the condition last changed, as one CamelCase word for programs to compare."""
    message: Annotated[str, Field(max_length=32768), required()] = ""
    """Details of the last change, for people. May be empty."""


def takes_conditions(fields: Iterable[str], required: Iterable[str]) -> bool:
    """Return whether an item with these JSON fields can hold a condition."""
    return {"type", "status"} <= set(fields) and set(required) <= _FIELDS


def find_condition(
    conditions: Iterable[Condition] | None,
    type: str,  # noqa: A002 - the field's name
) -> Condition | None:
    """Return the condition of that type, or None; no list is an empty one."""
    for condition in conditions or ():
        if condition.type == type:
            return condition
    return None


def is_true(conditions: Iterable[Condition] | None, type: str) -> bool:  # noqa: A002 - the field's name
    """Return whether there is a condition of that type with status True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.status == "True"


def set_condition(
    conditions: list[Condition],
    type: str,  # noqa: A002 - the field's name
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    generation: int | None = None,
    now: Callable[[], datetime],
) -> bool:
    """Replace the condition of its type by a new one, or append it; return whether anything changed.

    `lastTransitionTime` moves to `now()` only when the status flips. An equal condition changes nothing, and
    no object is made for it. The list keeps its order.

    Raises:
        pydantic.ValidationError: the server would refuse such a condition.
    """
    old = find_condition(conditions, type)
    moved = None if old is None or old.status != status else old.last_transition_time
    if (
        old is not None
        and moved is not None
        and (old.reason, old.message, old.observed_generation) == (reason, message, generation)
    ):
        return False
    new = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        # Whole seconds, as every timestamp of the API.
        last_transition_time=moved or now().replace(microsecond=0),
    )
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new
    return True
