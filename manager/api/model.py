"""The base of every model for JSON of the API, and changes of models in place."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema

UNCHECKED_PATTERN = "unchecked_pattern"
"""A schema metadata key for a string's pattern that pydantic's regular expressions do not support."""


@cache
def is_checkable(pattern: str) -> bool:
    """Return whether pydantic's regular expressions support the pattern; look-around is not supported."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return False
    return True


def _prepare(part: Any, model: type[BaseModel]) -> None:
    """Change a core schema: lists and maps fail at the first error; unsupported patterns become metadata."""
    if isinstance(part, list | tuple):
        for each in part:
            _prepare(each, model)
    elif isinstance(part, dict):
        sort = part.get("type")  # or the field with this name
        if sort == "model" and part["cls"] is not model:
            return  # this part is already prepared
        if sort in ("list", "dict"):
            part["fail_fast"] = True
        elif sort == "str" and isinstance(pattern := part.get("pattern"), str) and not is_checkable(pattern):
            # An error here would end the import with a traceback; the CRD generator reports the field
            # instead.
            part["metadata"] = {**part.get("metadata", {}), UNCHECKED_PATTERN: part.pop("pattern")}
        for each in part.values():
            _prepare(each, model)


class ApiModel(BaseModel):
    """A model with the API's field names in JSON (`readyReplicas`) and Python's in code (`ready_replicas`).

    Unknown fields are kept: an object of a newer version of the kind survives a read, a change and a write by
    an older version.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="allow",
        cache_strings="keys",  # not values: they would stay in memory, even those of Secrets
        hide_input_in_errors=True,  # input values may be passwords, which must not be logged
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema whose validation of a list or map stops at the first invalid item.

        Recording the errors of a hundred thousand items would block the event loop for half a second and use
        160 MB.
        """
        schema = handler(source)
        _prepare(schema, cls)
        return schema

    def to_wire(self, *, only: set[str] | None = None) -> dict[str, Any]:
        """Return the JSON form: the API's names, plain JSON values, and no field with the value None.

        Empty lists, empty strings, zero and false are kept. With `only`, just these fields are returned.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, include=only)


def without_defaults(model: ApiModel, wire: dict[str, Any]) -> dict[str, Any]:
    """Return a model's JSON without the fields that are unset and have their defaults.

    An unset field that was changed in place is kept. `wire` is the result of `to_wire`.
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


_ABSENT = object()


def take_over(held: Any, fresh: Any, before: Any, ours: Any, theirs: Any) -> Any:
    """Return `held` with the content of `fresh`; models, lists and maps in `held` stay the same objects.

    `ours` and `theirs` are the JSON of `held` and `fresh`, and `before` is the JSON of their common ancestor.
    Changes from `before` to `ours` are kept. If both sides have changed a list, our list wins, but conditions
    are merged by type. Values with equal JSON stay the same objects, because they may have secrets that the
    JSON lacks. A list item in `held` is reused for a new item that is equal, or has the same type or name.
    """
    if ours == theirs and repr(ours) == repr(theirs):  # Python considers True and 1 equal
        return held
    # The JSON of metadata omits empty fields.
    empty: Any = [] if isinstance(held, list) else {}
    old, mine, new = (empty if each is _ABSENT else each for each in (before, ours, theirs))
    is_model, same = isinstance(held, ApiModel), type(held) is type(fresh)
    if same and (is_model or isinstance(held, dict)) and type(mine) is type(new) is dict:
        old, entries, others = old if isinstance(old, dict) else {}, held, fresh
        if is_model:
            for name, field in type(held).model_fields.items():
                value, alias = getattr(held, name), field.serialization_alias or field.alias or name
                parts = (each.get(alias, _ABSENT) for each in (old, mine, new))
                if (taken := take_over(value, getattr(fresh, name), *parts)) is not value:
                    setattr(held, name, taken)
            if held.model_extra is None or fresh.model_extra is None:
                return held  # for a model that forbids or ignores other fields
            entries, others = held.model_extra, fresh.model_extra
        for name in {**others, **entries}:
            parts = (each.get(name, _ABSENT) for each in (old, mine, new))
            entries[name] = take_over(entries.get(name, _ABSENT), others.get(name, _ABSENT), *parts)
            if entries[name] is _ABSENT:
                del entries[name]
        return held
    lists = isinstance(held, list) and isinstance(fresh, list) and type(mine) is type(new) is list
    if lists and (len(mine), len(new)) == (len(held), len(fresh)):
        return _list_taken_over(held, fresh, old, mine, new)
    return fresh if ours == before else held


def _list_taken_over(
    held: list[Any], fresh: list[Any], before: Any, ours: list[Any], theirs: list[Any]
) -> Any:
    known, wanted = list(zip(held, ours, strict=True)), list(zip(fresh, theirs, strict=True))
    if ours != before:
        conditions = merged_by_type(before, ours, theirs)
        if conditions is None:
            return held
        values = {id(item): value for value, item in (*known, *wanted)}
        wanted = [(values[id(item)], item) for item in conditions]
    pairs = zip(wanted, _paired(known, [item for _, item in wanted]), strict=True)
    held[:] = [take_over(each, value, it, it, item) for (value, item), (each, it) in pairs]
    return held


def _paired(held: list[tuple[Any, Any]], fresh: list[Any]) -> list[tuple[Any, Any]]:
    """Return, for each item of `fresh`, the pair in `held` to reuse; (None, None) if no pair fits.

    A pair is an object and its JSON; `fresh` has JSON. A pair fits if its JSON is equal to the new item, or
    has the same type or name. The cost is linear, because a client may have replaced a whole long list.
    """
    found = dict[int, tuple[Any, Any]]()
    for by in (repr, _item_key):
        places = defaultdict[str, deque[int]](deque)
        for place, (_, item) in enumerate(held):
            places[by(item)].append(place)
        for place, each in enumerate(fresh):
            if place not in found and (its := places.get(by(each))):
                found[place] = held[its.popleft()]
        taken = {id(pair) for pair in found.values()}
        held = [pair for pair in held if id(pair) not in taken]
    return [found.get(place, (None, None)) for place in range(len(fresh))]


def _item_key(item: Any) -> str:
    find = item.get if isinstance(item, dict) else partial(getattr, item)
    return repr(find("type", None) or find("name", None))


def merged_by_type(before: Any, ours: Any, theirs: Any) -> list[Any] | None:
    """Return the conditions in `theirs`, with the changes that lead from `before` to `ours`.

    Returns None if any argument is not a list of conditions.
    """
    old, new, there = map(conditions_by_type, (before, ours, theirs))
    if old is None or new is None or there is None:
        return None
    changed = {name: each for name, each in new.items() if old.get(name) != each}
    kept = {name: each for name, each in there.items() if name not in old.keys() - new.keys()}
    return list({**kept, **changed}.values())


def conditions_by_type(items: Any) -> dict[str, Any] | None:
    """Return conditions by type; None if a type is missing or repeated, or `items` is no list of objects."""
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        return None
    found = {each.get("type"): each for each in items}
    return found if len(found) == len(items) and None not in found else None
