"""The base of every model that travels to or from an API server."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema

UNCHECKED_PATTERN = "unchecked_pattern"
"""In the metadata of a string's schema: a pattern that pydantic's regular expressions do not take."""


@cache
def is_checkable(pattern: str) -> bool:
    """Return whether pydantic's regular expressions take the pattern; they have no look-around, say."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return False
    return True


def _prepare(part: Any, model: type[BaseModel]) -> None:
    """Make lists and maps of a model fail at the first wrong member; set apart patterns it cannot check."""
    if isinstance(part, list | tuple):
        for each in part:
            _prepare(each, model)
    elif isinstance(part, dict):
        sort = part.get("type")  # or the field of this name
        if sort == "model" and part["cls"] is not model:
            return  # has been here itself
        if sort in ("list", "dict"):
            part["fail_fast"] = True
        elif sort == "str" and isinstance(pattern := part.get("pattern"), str) and not is_checkable(pattern):
            # The class would end the import with a traceback; the definition's maker names the field instead.
            part["metadata"] = {**part.get("metadata", {}), UNCHECKED_PATTERN: part.pop("pattern")}
        for each in part.values():
            _prepare(each, model)


class ApiModel(BaseModel):
    """A model with the API's field names on the wire (`readyReplicas`), Python's in code (`ready_replicas`).

    Fields it does not know are kept: an object written by a newer version of the kind survives a read, a
    change and a write by this one.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="allow",
        cache_strings="keys",  # and not values: they would stay in memory, those of Secrets too
        hide_input_in_errors=True,  # what an object holds, passwords too, is not for logs
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Stop the validation of a list or a map at its first wrong member.

        Recording the errors of a hundred thousand members takes half a second and 160 MB, without
        interruption.
        """
        schema = handler(source)
        _prepare(schema, cls)
        return schema

    def to_wire(self, *, only: set[str] | None = None) -> dict[str, Any]:
        """Return the JSON form: the API's names, plain JSON values, and no field that is None.

        Empty lists, empty strings, zero and false are values, and stay. With `only`, just these fields.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, include=only)


def without_defaults(model: ApiModel, wire: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a model without the fields that were not set and have their defaults.

    A field that was not set, but changed in place, stays. `wire` is what `to_wire` returns.
    """
    kept = dict(wire)
    for name, field in type(model).model_fields.items():
        alias = field.serialization_alias or field.alias or name
        if alias not in kept:
            continue
        value = getattr(model, name)
        is_set = name in model.model_fields_set or field.default_factory_takes_validated_data
        if not is_set and value == field.get_default(call_default_factory=True):
            del kept[alias]
            continue
        kept[alias] = _without_defaults(value, kept[alias])
    return kept


def _without_defaults(value: Any, wire: Any) -> Any:
    if isinstance(value, ApiModel) and isinstance(wire, dict):
        return without_defaults(value, wire)
    if isinstance(value, list) and isinstance(wire, list) and len(value) == len(wire):
        return [_without_defaults(*each) for each in zip(value, wire, strict=True)]
    if isinstance(value, dict) and isinstance(wire, dict):
        return {name: _without_defaults(value.get(name), each) for name, each in wire.items()}
    return wire
