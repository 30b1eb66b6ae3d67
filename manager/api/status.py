"""The base of the status of kinds that an operator reconciles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from manager.api.condition import CONDITION_TYPE, Condition
from manager.api.model import ApiModel
from manager.api.schema import Int64, list_map, preserve_unknown


class Status(ApiModel):
    '''The observed state of an object: conditions, the generation that they are about, and the kind's fields.

        class GreetingStatus(Status, conditions={"Ready": "its words are in the ConfigMap"}):
            """What was said."""

    `conditions` says what the status True of each type means, and `about` names their subject;
    `kubectl explain` shows both. An operator sets these conditions when an object is blocked.
    '''

    meanings: ClassVar[Mapping[str, str]] = {}
    """What each type of condition means."""
    _about: ClassVar[str] = "the object"

    observed_generation: Int64 | None = None
    """The metadata.generation that this status was made for."""
    conditions: Annotated[list[Condition], list_map("type")] = Field(default_factory=list)
    """What is known about the object."""

    def __init_subclass__(
        cls,
        *,
        conditions: Mapping[str, str] | None = None,
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
        """Make the schema with the kind's own fields first, and a description of its conditions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in ("observedGeneration", "conditions"):
            properties[name] = properties.pop(name)
        if cls.meanings:
            meanings = ";\n".join(f"{each}: {meaning}" for each, meaning in cls.meanings.items())
            properties["conditions"]["description"] = f"What is known about {cls._about}:\n{meanings}."
        return schema


class StepsStatus(ApiModel):
    """The progress of a long operation, and the result of the last one that succeeded."""

    state: Literal["Running", "Succeeded", "Failed"] | None = None
    """Whether the operation runs, or how it has ended."""
    step: str = ""
    """The step that is being done, or was the last."""
    progress: str = ""
    """The number of that step, and how many there are."""
    message: str = ""
    """What the step waits for, or why the operation has failed."""
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
    """The same of the last operation that has succeeded."""

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The fields that differ from the last success, by path: the value before, and the wanted one."""
        paths = dict.fromkeys((*self.achieved, *self.target))
        values = {path: (self.achieved.get(path), self.target.get(path)) for path in paths}
        return {path: (before, after) for path, (before, after) in values.items() if before != after}
