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
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from manager.client.errors import FieldConflict
from manager.client.ownership import Path, field_name, has_field, place_in, release
from manager.client.write import merge_diff
from manager.kube.errors import ApiError
from manager.util import clock

Record = Mapping[str, Any]
"""Fields, as FieldsV1 has them."""

Names = tuple[str, ...]
"""The names of the fields that lead to a list: `("spec", "template", "spec", "containers", "ports")`."""

_index = re.compile(r"\[[^\]]*\]")


REFUSED_SECONDS = 300.0
"""For how long a repair is not tried again after the server has refused it. No event tells when the server
would accept it: when a policy changes, say."""


class RefusedRepairs:
    """Repairs that the server has refused, each with its answer: no retry repeats them for a while."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._refusals: OrderedDict[str, tuple[int, float, ApiError]] = OrderedDict()

    def get(self, uid: str, state: int) -> ApiError | None:
        """Return the server's recent answer, if it was for that state of the object."""
        found = self._refusals.get(uid)
        if found is None or found[0] != state or found[1] <= clock.monotonic():
            return None
        return found[2]

    def put(self, uid: str, state: int, refusal: ApiError) -> None:
        """Remember that the server has just refused the repair of this state of an object."""
        self._refusals[uid] = state, clock.monotonic() + REFUSED_SECONDS, refusal
        self._refusals.move_to_end(uid)
        if len(self._refusals) > self._most:
            self._refusals.popitem(last=False)


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


class Repair(NamedTuple):
    """A merge patch with the effect of an apply.

    Attributes: `conflicts`, the items of others that it removes, and their managers; `releases`, whether it
    removes fields of ours that are no longer wanted; `removed`, the places of these items.
    """

    patch: dict[str, Any]
    conflicts: tuple[FieldConflict, ...]
    releases: bool
    removed: tuple[Path, ...]


def repair_patch(
    live: Mapping[str, Any],
    wanted: Mapping[str, Any],
    ours: Record,
    others: Sequence[tuple[str, Record]],
    lists: Iterable[Names] = (),
    keeps: Collection[Path] = (),
) -> Repair:
    """Return a patch with the effect of an apply of `wanted`, but without others' items in `lists`.

    Items that `keeps` names stay.

    Without conflicts, no other client is in the way. `ours` are the fields that the apply would replace or
    remove, `others` the managers of other fields.
    """
    overlay = _Overlay(set(lists), keeps, others)
    after = overlay.of(live, wanted, ours, [record for _, record in others])
    conflicts = tuple(each for path in overlay.removed for each in overlay.conflicts(path))
    return Repair(merge_diff(live, after), conflicts, overlay.releases, tuple(overlay.removed))


class _Overlay:
    """An object as an apply would leave it, but for items of others in some lists."""

    def __init__(
        self, lists: set[Names], keeps: Collection[Path], others: Sequence[tuple[str, Record]]
    ) -> None:
        self._lists = lists
        self._keeps = keeps
        self._others = others
        self.removed: list[Path] = []
        self.releases = False

    def of(self, there: Any, wanted: Any, ours: Record, others: Sequence[Record], path: Path = ()) -> Any:
        """Return the value at a path after an apply of `wanted`; `ours` and `others` are records below it."""
        if path and not _steps(ours, others):
            return wanted  # it is owned as one piece
        if isinstance(there, Mapping) and isinstance(wanted, Mapping):
            return self._of_map(there, wanted, ours, others, path)
        if isinstance(there, list) and isinstance(wanted, list):
            return self._of_list(there, wanted, ours, others, path)
        return wanted

    def _of_map(
        self, there: Record, wanted: Record, ours: Record, others: Sequence[Record], path: Path
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in there.items():
            step = f"f:{name}"
            if name in wanted:
                result[name] = self._below(value, wanted[name], step, ours, others, path)
            else:
                result |= self._released({name: value}, step, ours, others)
        return result | {name: value for name, value in wanted.items() if name not in there}

    def _of_list(
        self, there: list[Any], wanted: list[Any], ours: Record, others: Sequence[Record], path: Path
    ) -> list[Any]:
        steps = {place: step for step in _steps(ours, others) if (place := place_in(there, step)) is not None}
        mine = {place: place_in(wanted, step, defaulted=True) for place, step in steps.items()}
        refused = tuple(step[2:] for step in path if step.startswith("f:")) in self._lists
        merged, kept = list(wanted), list[Any]()
        in_place, last = [], -1
        for place, item in enumerate(there):
            step, number = steps.get(place, ""), mine.get(place)
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
        self, there: Any, wanted: Any, step: str, ours: Record, others: Sequence[Record], path: Path
    ) -> Any:
        [mine] = _below([ours], step) or [{}]
        return self.of(there, wanted, mine, _below(others, step), (*path, step))

    def _released(self, there: Any, step: str, ours: Record, others: Sequence[Record]) -> Any:
        """Return a map or list of one entry without the parts that only we own."""
        if step not in ours:
            return there
        left = copy.deepcopy(there)
        release(left, {step: ours[step]}, others)
        self.releases |= left != there
        return left

    def conflicts(self, path: Path) -> Iterator[FieldConflict]:
        """Yield the managers of a removed item."""
        managers = [manager for manager, record in self._others if has_field(record, path)]
        yield from (FieldConflict(manager, field_name(path)) for manager in managers or [""])


def _steps(ours: Record, others: Sequence[Record]) -> dict[str, None]:
    return {step: None for record in (ours, *others) for step in record if step != "."}


def _below(records: Sequence[Record], step: str) -> list[Record]:
    return [below for record in records if isinstance(below := record.get(step), dict)]
