"""A store of each object's last changes, from the events of the caches."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import orjson

from manager.api import ObjectKey
from manager.api.confidential import masked
from manager.cache import Cache, CacheEvent, Informer, WatchSpec
from manager_console.diagnosis.explanation import unix_offset

BUDGET = 4 * 1024 * 1024  # bytes of JSON, before and after; beyond this, the oldest change is dropped
LARGEST = 64 * 1024  # bytes; the change of a larger object is not kept
MOST_CHANGES, MOST_FIELDS = 20, 40  # changes of an object and its children, and fields of each change
_LOOK = 5.0  # seconds between two checks for new caches

# Fields that change together with others and add no information.
_NOISE = {f".metadata.{name}" for name in ("managedFields", "resourceVersion", "generation")}
_NOT_TOLD = {".lastTransitionTime", ".lastUpdateTime", ".observedGeneration"}


class Field(NamedTuple):
    """A changed field; the text before or after the change is empty if the field is missing there."""

    path: str
    before: str
    after: str


class Change(NamedTuple):
    """A change of an object, with its JSON before and after."""

    spec: WatchSpec
    key: ObjectKey
    at: float
    before: bytes
    after: bytes


class Changes:
    """The last change of each object's spec, and the last change of its other fields; Secrets are excluded.

    It stores the JSON before and after each change, and compares them only when a page needs it.
    """

    def __init__(self, cache: Cache, on_deletion: Callable[[WatchSpec, ObjectKey], None]) -> None:
        """Create an empty store; `on_deletion` is called for each deleted object, with its kind and key."""
        self._cache = cache
        self._on_deletion = on_deletion
        self._changes: OrderedDict[tuple[str, bool], Change] = OrderedDict()
        """By UID, and whether the spec has changed: a change of the status replaces no change of the spec."""
        self._bytes = 0

    async def run(self) -> None:
        """Subscribe to all caches, also to caches that start later, until cancelled."""
        heard: set[Informer] = set()
        while True:
            known = set(self._cache.informers)
            for informer in known - heard:
                informer.subscribe(partial(self._take, informer), replay=False)
            heard = known
            await asyncio.sleep(_LOOK)

    def _take(self, informer: Informer, event: CacheEvent) -> None:
        uid, old, new = event.record.uid, event.old, event.new
        if old is None or new is None:
            self._drop((uid, True))
            self._drop((uid, False))
            if new is None:
                self._on_deletion(informer.spec, event.key)
        elif _is_kept(informer):
            of = uid, old.generation != new.generation
            self._drop(of)
            if not event.is_cut and max(len(old.raw), len(new.raw)) <= LARGEST:
                self._changes[of] = Change(informer.spec, event.key, event.received, old.raw, new.raw)
                self._bytes += len(old.raw) + len(new.raw)
            while self._bytes > BUDGET:
                self._drop(next(iter(self._changes)))

    def _drop(self, of: tuple[str, bool]) -> None:
        if (change := self._changes.pop(of, None)) is not None:
            self._bytes -= len(change.before) + len(change.after)

    async def of(
        self, uid: str, may_get: Callable[[WatchSpec, ObjectKey], Awaitable[bool]]
    ) -> list[tuple[Change, list[Field]]]:
        """Return the last changes of an object and its children, latest first.

        Changes of objects that the user may not get are left out.
        """
        uids = {uid}
        for informer in filter(_is_kept, tuple(self._cache.informers)):
            await informer.prepare(owner_uid=uid)
            uids |= {record.uid for record in informer.list(owner_uid=uid)}
        found = [change for of, change in self._changes.items() if of[0] in uids]
        changes = list[tuple[Change, list[Field]]]()
        for change in sorted(found, key=lambda each: -each.at)[:MOST_CHANGES]:
            if await may_get(change.spec, change.key) and (fields := fields_of(change)):
                changes.append((change._replace(at=change.at + unix_offset()), fields))
            await asyncio.sleep(0)  # each comparison may have taken a millisecond
        return changes


def _is_kept(informer: Informer) -> bool:
    return informer.spec.projection == "full" and informer.spec.gvk.kind != "Secret"


def fields_of(change: Change) -> list[Field]:
    """Return the changed fields, without confidential values."""
    try:
        before, after = orjson.loads(change.before), orjson.loads(change.after)
        one, other = masked(before, after, "before"), masked(after, before, "after")
        return list(islice(_differences("", one, other), MOST_FIELDS))
    except (ValueError, TypeError, RecursionError):
        return [Field("it is nested too deeply to be shown", "", "")]


_ABSENT = object()


def _differences(path: str, before: Any, after: Any) -> Iterator[Field]:
    """Yield the changed fields one by one, because a list of them could need too much memory."""
    one, other = _parts(before), _parts(after)
    for part in {**one, **other}:
        old, new = one.get(part, _ABSENT), other.get(part, _ABSENT)
        if old != new and part not in _NOT_TOLD and (below := f"{path}{part}") not in _NOISE:
            yield from _differences(below, old, new)
    field = Field(path[1:], _text(before), _text(after))
    if field.before != field.after:
        yield field


def _parts(value: Any) -> dict[str, Any]:
    """Return the members of a JSON object or list by the last step of their paths; empty for others.

    Items of a list are identified by a field such as a condition's type or a container's name.
    """
    if isinstance(value, dict):
        return {f".{name}": each for name, each in value.items()}
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return {}
    for key in "type", "name":
        names = {each[key]: each for each in value if isinstance(each.get(key), str)}
        if len(names) == len(value):
            return {f"[{name}]": each for name, each in names.items()}
    return {f"[{number}]": each for number, each in enumerate(value)}


def _text(value: Any) -> str:
    if value is _ABSENT or isinstance(value, dict) or _parts(value):
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
