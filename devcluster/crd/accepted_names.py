"""Accepted names of a definition: those that no other definition of its group has."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from devcluster.crd.conditions import is_established, set_condition

__all__ = ["accept_names"]

Object = dict[str, Any]

_SINGLE = (("plural", "Plural"), ("singular", "Singular"), ("kind", "Kind"), ("listKind", "ListKind"))
_KINDS = frozenset({"kind", "listKind"})
_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


def accept_names(obj: Object, others: Iterable[Object], now: str) -> bool:
    """Set the accepted names and the conditions of `obj`; False when nothing changes.

    `others` are the other definitions of the same group.
    """
    wanted = {name: value for name, value in obj["spec"]["names"].items() if value}
    status = obj.setdefault("status", {})
    had: Object = {name: value for name, value in (status.get("acceptedNames") or {}).items() if value}
    if had == wanted:
        return False
    before = copy.deepcopy(status)
    resources, kinds = _taken(others)
    conflict = ("", "")
    accepted = dict(had)
    for key, shown in _SINGLE:
        name = wanted.get(key, "")
        if name != had.get(key, "") and name in (kinds if key in _KINDS else resources):
            conflict = (f"{shown}Conflict", f'"{name}" is already in use')
        elif name:
            accepted[key] = name
        if key == "singular":
            conflict = _short_names(wanted, had, accepted, resources) or conflict
    accepted.pop("categories", None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    shown_names = {"plural": "", "kind": ""} | accepted
    status["acceptedNames"] = {key: shown_names[key] for key in _ORDER if key in shown_names}
    reason, message = conflict
    if reason:
        set_condition(obj, "NamesAccepted", "False", reason, message, now)
    else:
        set_condition(obj, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    if not is_established(obj):
        if reason:
            set_condition(obj, "Established", "False", "NotAccepted", "not all names are accepted", now)
        else:
            text = "the initial names have been accepted"
            set_condition(obj, "Established", "False", "Installing", text, now)
    return bool(status != before)


def _taken(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for each in others:
        names = (each.get("status") or {}).get("acceptedNames") or {}
        resources.update(name for name in (names.get("plural"), names.get("singular")) if name)
        resources.update(names.get("shortNames") or ())
        kinds.update(name for name in (names.get("kind"), names.get("listKind")) if name)
    return resources, kinds


def _short_names(wanted: Object, had: Object, accepted: Object, taken: set[str]) -> tuple[str, str] | None:
    asked: Sequence[str] = wanted.get("shortNames") or ()
    own = had.get("shortNames") or ()
    refused = [f'"{name}" is already in use' for name in asked if name not in own and name in taken]
    if refused:
        text = refused[0] if len(refused) == 1 else f"[{', '.join(refused)}]"
        return "ShortNamesConflict", text
    accepted.pop("shortNames", None)
    if asked:
        accepted["shortNames"] = list(asked)
    return None
