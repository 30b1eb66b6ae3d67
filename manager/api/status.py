"""The base of the status of kinds that an operator reconciles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Unpack

from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from manager.api.condition import CONDITION_TYPE, Condition
from manager.api.model import ApiModel
from manager.api.schema import Int64, list_map


class Status(ApiModel):
    '''What is seen of an object: conditions, the generation that they are about, and the fields of the kind.

        class GreetingStatus(Status, conditions={"Ready": "its words are in the ConfigMap"}):
            """What was said."""

    `conditions` says what the status True of each type means, and `about` of what; `kubectl explain` shows
    both. An operator sets these conditions when an object is blocked.
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
        """The kind's own fields come first, and the conditions are described."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in ("observedGeneration", "conditions"):
            properties[name] = properties.pop(name)
        if cls.meanings:
            meanings = ";\n".join(f"{each}: {meaning}" for each, meaning in cls.meanings.items())
            properties["conditions"]["description"] = f"What is known about {cls._about}:\n{meanings}."
        return schema
