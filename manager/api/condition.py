"""Conditions, by which a controller reports an object's state, and base classes for statuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NewType, Unpack

from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from manager.api.model import ApiModel
from manager.api.schema import Int64, list_map, preserve_unknown, required

ConditionStatus = Literal["True", "False", "Unknown"]

CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


ConditionType = NewType("ConditionType", str)
"""Type of a condition, such as `ConditionType("StoreReachable")`; a type checker refuses a plain `str`."""

AVAILABLE, DEGRADED = ConditionType("Available"), ConditionType("Degraded")
PROGRESSING, READY = ConditionType("Progressing"), ConditionType("Ready")

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
    """Return whether a `Condition` is a valid item of a list whose items have `fields`, some `required`."""
    return {"type", "status"} <= set(fields) and set(required) <= _FIELDS


def find_condition(
    conditions: Iterable[Condition] | None,
    type: ConditionType,  # noqa: A002 - the field's name
) -> Condition | None:
    """Return the condition of this type; None if `conditions` lacks it or is None."""
    for condition in conditions or ():
        if condition.type == type:
            return condition
    return None


def is_true(
    conditions: Iterable[Condition] | None,
    type: ConditionType,  # noqa: A002 - the field's name
) -> bool:
    """Return whether the condition of this type exists and has the status True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.status == "True"


def set_condition(
    conditions: list[Condition],
    type: ConditionType,  # noqa: A002 - the field's name
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    generation: int | None = None,
    now: Callable[[], datetime],
) -> bool:
    """Replace the condition of the type, or append one; return whether anything changed.

    `lastTransitionTime` becomes `now()` only if the status changes or the time was missing. An equal
    condition changes nothing, and creates no object. The list keeps its order.

    Raises:
        pydantic.ValidationError: the server would refuse such a condition.
    """
    index, old = len(conditions), None
    for at, each in enumerate(conditions):
        if each.type == type:
            index, old = at, each
            break
    moved = None if old is None or old.status != status else old.last_transition_time
    if (
        old is not None
        and moved is not None
        and old.reason == reason
        and old.message == message
        and old.observed_generation == generation
    ):
        return False
    new = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        # Whole seconds, like every timestamp of the API.
        last_transition_time=moved or now().replace(microsecond=0),
    )
    conditions[index : index + 1] = [new]
    return True


class Status(ApiModel):
    '''The observed state of an object: conditions, their generation, and the kind's own fields.

        class GreetingStatus(Status, conditions={READY: "its words are in the ConfigMap"}):
            """What was said."""

    `conditions` says what the status True means for each type, such as `READY` or
    `ConditionType("StoreReachable")`. `about` names the subject of the conditions. `kubectl explain` shows
    both texts. An operator sets these conditions when an object is blocked.
    '''

    meanings: ClassVar[Mapping[ConditionType, str]] = {}
    """The meaning of each condition type."""
    _about: ClassVar[str] = "the object"

    observed_generation: Int64 | None = None
    """The metadata.generation that this status was made for."""
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)
    """What is known about the object."""

    def __init_subclass__(
        cls,
        *,
        conditions: Mapping[ConditionType, str] | None = None,
        about: str | None = None,
        **kwargs: Unpack[ConfigDict],
    ) -> None:
        super().__init_subclass__(**kwargs)
        for name in conditions or ():
            if not re.search(CONDITION_TYPE, str(name)):
                raise TypeError(f"{cls.__name__}: {name!r} is no type of a condition; write it in CamelCase")
        cls.meanings = cls.meanings if conditions is None else conditions
        cls._about = cls._about if about is None else about

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema with the kind's own fields first, and with a description of its conditions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in ("observedGeneration", "conditions"):
            properties[name] = properties.pop(name)
        if cls.meanings:
            meanings = ";\n".join(f"{each}: {meaning}" for each, meaning in cls.meanings.items())
            properties["conditions"]["description"] = f"What is known about {cls._about}:\n{meanings}."
        return schema


class StepsStatus(ApiModel):
    """The progress of a long operation, and the result of the last successful one."""

    state: Literal["Running", "Succeeded", "Failed"] | None = None
    """Whether the operation runs, or how it has ended."""
    step: str = ""
    """The current step, or the last one if the operation has ended."""
    progress: str = ""
    """The number of the step, and the number of all steps."""
    message: str = ""
    """The reason why the step waits, or why the operation has failed."""
    started_at: datetime | None = None
    """The time at which the operation has begun."""
    step_started_at: datetime | None = None
    """The time at which the step has begun."""
    ended_at: datetime | None = None
    """The time at which the operation has ended."""
    generation: Int64 | None = None
    """The metadata.generation of the object at which the operation has begun."""
    target: Annotated[dict[str, Any], preserve_unknown()] = Field(default_factory=dict)
    """The fields that the operation brings about, by path."""
    achieved: Annotated[dict[str, Any], preserve_unknown()] = Field(default_factory=dict)
    """The value of `target` at the last successful operation."""

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields that changed since the last success, by path: the earlier and the new value."""
        paths = dict.fromkeys((*self.achieved, *self.target))
        values = {path: (self.achieved.get(path), self.target.get(path)) for path in paths}
        return {path: (before, after) for path, (before, after) in values.items() if before != after}
