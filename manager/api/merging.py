"""Changes of a stored object, made in the Python objects that stand for it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from manager.api.model import ApiModel

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
    """Return the conditions `theirs` with those in which `ours` differs from `before`.

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
