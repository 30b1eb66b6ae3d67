"""The base of every model that travels to or from an API server, and changes of models in place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
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


Json = Mapping[str, Any]


def take_changes(held: ApiModel, stored: ApiModel, *, before: Json, after: Json, now: Json) -> None:
    """Make in `held` the changes that lead from `before` to `after`, in place.

    Models, lists and maps inside of `held` stay the same objects. A field that was changed here too, so that
    `now` differs from `before`, stays as it is; lists of conditions are merged by type.

    Args:
        held: the model that the program works with.
        stored: the model of `after`.
        before: the JSON from which the server's change starts.
        after: the JSON that the server has.
        now: the JSON of `held`.
    """
    names = {field.alias or name: name for name, field in type(held).model_fields.items()}
    for alias in {**before, **after}:
        if before.get(alias) == after.get(alias):
            continue
        name = names.get(alias, alias)
        if name == alias and alias not in after and held.model_extra and alias in held.model_extra:
            if now.get(alias) == before.get(alias):
                del held.model_extra[alias]
            continue
        mine = getattr(held, name, None)
        taken = _taken(mine, getattr(stored, name, None), before.get(alias), after.get(alias), now.get(alias))
        if taken is not mine:
            setattr(held, name, taken)


def as_model_says(held: object, raw: Any) -> Any:
    """Return JSON as the model of `held` writes it, with its defaults; as it is where there is no model."""
    if not isinstance(held, ApiModel):
        return raw
    try:
        return type(held).model_validate(raw if raw is not None else {}).to_wire()
    except ValidationError:
        return raw


def _taken(mine: Any, theirs: Any, before: Any, after: Any, now: Any) -> Any:
    """Return `mine` after the change from `before` to `after`, or its replacement."""
    if isinstance(mine, ApiModel) and type(theirs) is type(mine):
        take_changes(mine, theirs, before=before or {}, after=after or {}, now=now or {})
        return mine
    if _is_map(mine) and _is_map(theirs):
        _take_entries(mine, theirs, before or {}, after or {}, now or {})
        return mine
    if isinstance(mine, list) and isinstance(theirs, list):
        _take_items(mine, theirs, before or [], after or [], now or [])
        return mine
    return theirs if now == before else mine


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value)


def _take_entries(mine: dict[str, Any], theirs: Json, before: Json, after: Json, now: Json) -> None:
    for name in {**before, **after}:
        was, there = name in before, name in after
        if was and there and before[name] == after[name]:
            continue
        if not there:
            if now.get(name) == before.get(name):
                mine.pop(name, None)
        elif name in mine:
            mine[name] = _taken(mine[name], theirs[name], before.get(name), after[name], now.get(name))
        elif not was:
            mine[name] = theirs[name]


def _take_items(
    mine: list[Any], theirs: list[Any], before: list[Any], after: list[Any], now: list[Any]
) -> None:
    wanted = after if now == before else merged_by_type(before, now, after)
    if wanted is None or len(now) != len(mine) or len(after) != len(theirs):
        return
    ours = list(zip(now, mine, strict=True))
    found: list[Any] = [_popped(ours, item) for item in wanted]
    for place, item in enumerate(wanted):
        if found[place] is not None:
            continue
        stored = theirs[after.index(item)]
        same = next((each for each in ours if _is_same(each[0], item)), None)
        if same is None:
            found[place] = stored
        else:
            ours.remove(same)
            found[place] = _taken(same[1], stored, same[0], item, same[0])
    mine[:] = found


def _popped(ours: list[tuple[Any, Any]], item: Any) -> Any:
    """Return the object that is exactly the item, and take it from the list; None if there is none."""
    for place, (json, held) in enumerate(ours):
        if json == item:
            del ours[place]
            return held
    return None


def _is_same(ours: Any, theirs: Any) -> bool:
    """Return whether two items stand for one: of the same type, or name, where they have one."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return False
    key = next((key for key in ("type", "name") if key in ours or key in theirs), None)
    return key is None or ours.get(key) == theirs.get(key)


def merged_by_type(before: Any, ours: Any, theirs: Any) -> list[Any] | None:
    """Return the conditions in `theirs`, with our changes: the differences of `ours` from `before`.

    Returns None for anything else, whatever the field's name is.
    """
    old, new, there = map(conditions_by_type, (before, ours, theirs))
    if old is None or new is None or there is None:
        return None
    changed = {name: each for name, each in new.items() if old.get(name) != each}
    kept = {name: each for name, each in there.items() if name not in old.keys() - new.keys()}
    return list({**kept, **changed}.values())


def conditions_by_type(items: Any) -> dict[str, Any] | None:
    """Return conditions by their types, which are a key; None for anything else."""
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        return None
    found = {each.get("type"): each for each in items}
    return found if len(found) == len(items) and None not in found else None
