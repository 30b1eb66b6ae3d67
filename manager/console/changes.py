"""The last change of each object, as the caches have seen it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import orjson

from manager.api import ObjectKey
from manager.api.confidential import masked
from manager.cache import Cache, CacheEvent, Informer, WatchSpec
from manager.console.serialize import unix_offset

BUDGET = 4 * 1024 * 1024
"""Bytes of JSON, before and after together; beyond them the oldest change is dropped."""

LARGEST = 64 * 1024
"""A larger object's change is not kept; in bytes."""

MOST_CHANGES, MOST_FIELDS = 20, 40
"""Changes shown for an object and its children, and fields shown for each change."""

_LOOK = 5.0
"""Seconds between two checks for new caches."""

_SECRET = "Secret"  # noqa: S105 - a kind
_NOISE = ("managedFields", "resourceVersion", "generation")
_NOT_TOLD = {".lastTransitionTime", ".lastUpdateTime", ".observedGeneration"}
"""Fields that change whenever others do, and add nothing."""

_KEYS = ("type", "name")
"""Fields that identify an item of a list, such as a condition or a container."""


class Field(NamedTuple):
    """A field that has changed. The side on which it is missing is empty."""

    path: str
    before: str
    after: str


class Change(NamedTuple):
    """A change of an object."""

    spec: WatchSpec
    key: ObjectKey
    at: float
    before: bytes
    after: bytes


MayGet = Callable[[WatchSpec, ObjectKey], Awaitable[bool]]


class Changes:
    """The last change of each object's spec, and the last other change; Secrets are left out.

    It keeps the JSON before and after, and compares these for a page alone.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._steps: OrderedDict[tuple[str, bool], Change] = OrderedDict()
        """By UID, and whether the spec has changed: changes of the status are many, and soon there."""
        self._bytes = 0

    async def run(self) -> None:
        """Subscribe to all caches, later ones too, until cancelled."""
        heard: set[Informer] = set()
        while True:
            known = {each for each in self._cache.informers if _is_kept(each)}
            for informer in known - heard:
                informer.subscribe(partial(self._take, informer.spec), replay=False)
            heard = known
            await asyncio.sleep(_LOOK)

    def _take(self, spec: WatchSpec, event: CacheEvent) -> None:
        uid, old, new = event.record.uid, event.old, event.new
        if old is None or new is None:
            self._drop((uid, True))
            self._drop((uid, False))
            return
        of = uid, old.generation != new.generation
        self._drop(of)
        if event.is_cut or len(old.raw) > LARGEST or len(new.raw) > LARGEST:
            return
        self._steps[of] = Change(spec, event.key, event.received, old.raw, new.raw)
        self._bytes += len(old.raw) + len(new.raw)
        while self._bytes > BUDGET:
            self._drop(next(iter(self._steps)))

    def _drop(self, of: tuple[str, bool]) -> None:
        if (step := self._steps.pop(of, None)) is not None:
            self._bytes -= len(step.before) + len(step.after)

    async def of(self, uid: str, may_get: MayGet) -> list[tuple[Change, list[Field]]]:
        """Return the last changes of an object and of its children that the user may get, latest first."""
        uids = dict.fromkeys([uid])
        for informer in tuple(self._cache.informers):
            if _is_kept(informer):
                await informer.prepare(owner_uid=uid)
                uids |= dict.fromkeys(record.uid for record in informer.list(owner_uid=uid))
        found = [step for each in uids for spec in (True, False) if (step := self._steps.get((each, spec)))]
        changes = list[tuple[Change, list[Field]]]()
        for step in sorted(found, key=lambda each: -each.at)[:MOST_CHANGES]:
            if await may_get(step.spec, step.key) and (fields := _fields(step)):
                changes.append((step._replace(at=step.at + unix_offset()), fields))
            await asyncio.sleep(0)  # each may have taken a millisecond
        return changes


def _is_kept(informer: Informer) -> bool:
    return informer.spec.projection == "full" and informer.spec.gvk.kind != _SECRET


def _fields(step: Change) -> list[Field]:
    try:
        before, after = _content(step.before), _content(step.after)
        one, other = masked(before, after, "before"), masked(after, before, "after")
        return list(islice(_differences("", one, other), MOST_FIELDS))
    except (ValueError, TypeError, RecursionError):
        return [Field("it is nested too deeply to be shown", "", "")]


def _content(raw: bytes) -> Any:
    obj = orjson.loads(raw)
    for name in _NOISE:
        obj["metadata"].pop(name, None)
    return obj


def _differences(path: str, before: Any, after: Any) -> Iterator[Field]:
    if before == after:
        return
    one, other = _parts(before), _parts(after)
    if one is None or other is None:
        yield Field(path.removeprefix("."), _text(before), _text(after))
        return
    for part in dict.fromkeys((*one, *other)):
        if part not in _NOT_TOLD:
            yield from _differences(f"{path}{part}", one.get(part, _ABSENT), other.get(part, _ABSENT))


_ABSENT = object()


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Return the parts of a value, by the suffix of their path; None if it is shown as a whole."""
    if value is _ABSENT:
        return {}
    if isinstance(value, dict):
        return {f".{name}": each for name, each in value.items()}
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return None
    for key in _KEYS:
        names = [each.get(key) for each in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(value):
            return {f"[{each[key]}]": each for each in value}
    return {f"[{number}]": each for number, each in enumerate(value)}


def _text(value: Any) -> str:
    if value is _ABSENT:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
