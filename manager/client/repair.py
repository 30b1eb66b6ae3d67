"""Applies that are refused because another client has put items into our lists.

An apply merges lists by the keys of their items. After another client has changed a port from 80 to 8080, an
apply puts 80 beside it, and the server refuses two ports of one name. No apply removes an item of another
manager. So one patch does all that the apply would do, and removes others' items from the refused lists.

No patch is made for a list that is owned as one piece, or that others have not extended: there, the refusal
has another cause.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from manager.client.errors import FieldConflict
from manager.client.ownership import Fields, Path, field_name, has_field, place_in, release
from manager.client.write import merge_diff

Names = tuple[str, ...]
"""The names of the fields that lead to a list: `("spec", "template", "spec", "containers", "ports")`."""

_index = re.compile(r"\[[^\]]*\]")


def refused_lists(details: Mapping[str, Any]) -> list[set[Names]]:
    """Return the lists whose items a refusal is about, and the same with all lists around them.

    Nothing if the refusal is about anything else as well.
    """
    causes = details.get("causes")
    lists, around = set[Names](), set[Names]()
    for each in causes if isinstance(causes, list) else ():
        field = str(each.get("field", "")) if isinstance(each, dict) else ""
        places = [found.start() for found in _index.finditer(field)]
        if not places:
            return []
        named = [tuple(_index.sub("", field[:place]).split(".")) for place in places]
        lists.add(named[-1])
        around.update(named)
    return [lists, around] if lists else []


class Repair:
    """A merge patch with the effect of an apply of `wanted`, but without others' items in `lists`.

    Items that `keeps` names stay. `ours` are the fields that the apply would replace or remove, `others` the
    managers of other fields.

    Attributes:
        lists: the lists in which it removes items of others.
        removed: the places of the items of others that it removes.
        releases: whether it removes fields of ours that are no longer wanted.
    """

    def __init__(
        self,
        live: Fields,
        wanted: Fields,
        ours: Fields,
        others: Sequence[tuple[str, Fields]],
        lists: Iterable[Names] = (),
        keeps: Collection[Path] = (),
    ) -> None:
        self.lists = set(lists)
        self._keeps = keeps
        self._others = others
        self.removed: list[Path] = []
        self.releases = False
        self._patch = merge_diff(live, self._after(live, wanted, ours, [record for _, record in others], ()))

    def patch_of(self, demanded: Fields) -> dict[str, Any]:
        """Return the merge patch for an object with these metadata."""
        return {**self._patch, "metadata": {**self._patch.get("metadata", {}), **demanded}}

    @property
    def conflicts(self) -> tuple[FieldConflict, ...]:
        """Return the removed items, and their managers; without any, no other client is in the way."""
        return tuple(
            FieldConflict(manager, field_name(path))
            for path in self.removed
            for manager in [name for name, record in self._others if has_field(record, path)] or [""]
        )

    def _after(self, there: Any, wanted: Any, ours: Fields, others: Sequence[Fields], path: Path) -> Any:
        """Return the value at a path after an apply of `wanted`; `ours` and `others` are records below it."""
        if path and not _steps(ours, others):
            return wanted  # it is owned as one piece
        if isinstance(there, Mapping) and isinstance(wanted, Mapping):
            result: dict[str, Any] = {}
            for name, value in there.items():
                step = f"f:{name}"
                if name in wanted:
                    result[name] = self._below(value, wanted[name], step, ours, others, path)
                else:
                    result |= self._released({name: value}, step, ours, others)
            return result | {name: value for name, value in wanted.items() if name not in there}
        if isinstance(there, list) and isinstance(wanted, list):
            return self._list_after(there, wanted, ours, others, path)
        return wanted

    def _list_after(
        self, there: list[Any], wanted: list[Any], ours: Fields, others: Sequence[Fields], path: Path
    ) -> list[Any]:
        steps = {place: step for step in _steps(ours, others) if (place := place_in(there, step)) is not None}
        refused = tuple(step[2:] for step in path if step.startswith("f:")) in self.lists
        merged, kept = list(wanted), list[Any]()
        in_place, last = list[Any](), -1
        for place, item in enumerate(there):
            step = steps.get(place, "")
            number = place_in(wanted, step, defaulted=True)
            if number is not None:
                merged[number] = self._below(item, wanted[number], step, ours, others, path)
                in_place.append(merged[number])
                last = number if last == number - 1 else len(wanted)
            elif refused and step not in ours and (*path, step) not in self._keeps:
                self.removed.append((*path, step))
            else:
                left = self._released([item], step, ours, others)
                kept += left
                in_place += left
        # Items of others stay where they are, unless ours have to move.
        return in_place if last == len(wanted) - 1 else [*merged, *kept]

    def _below(
        self, there: Any, wanted: Any, step: str, ours: Fields, others: Sequence[Fields], path: Path
    ) -> Any:
        [mine] = _below([ours], step) or [{}]
        return self._after(there, wanted, mine, _below(others, step), (*path, step))

    def _released(self, there: Any, step: str, ours: Fields, others: Sequence[Fields]) -> Any:
        """Return a map or list of one entry without the parts that only we own."""
        if step not in ours:
            return there
        left = copy.deepcopy(there)
        release(left, {step: ours[step]}, others)
        self.releases |= left != there
        return left


def _steps(ours: Fields, others: Sequence[Fields]) -> dict[str, None]:
    return {step: None for record in (ours, *others) for step in record if step != "."}


def _below(records: Sequence[Fields], step: str) -> list[Fields]:
    return [below for record in records if isinstance(below := record.get(step), dict)]
