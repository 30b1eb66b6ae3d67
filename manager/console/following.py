"""Hearing of what no cache has: watches of what was listed for a page, while somebody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial

import msgspec

from manager.explain.looking import Found, Listed, Node
from manager.kube.decoding import watch_events
from manager.kube.errors import Forbidden, KubeError
from manager.kube.transport import Transport

MOST = 64
"""Watches at once, for all pages. What has none is looked at now and then."""

_SECONDS, _SILENCE = 120, 150.0
"""For which a watch is asked for, and after which nothing can come any more."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _Owner(msgspec.Struct):
    uid: str = ""


class _Meta(msgspec.Struct):
    uid: str = ""
    owners: list[_Owner] | None = msgspec.field(default=None, name="ownerReferences")


class _Changed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decode = msgspec.json.Decoder(_Changed).decode


class Following:
    """The watches of one page."""

    def __init__(self, transport: Transport, room: Room) -> None:
        """`room` is shared by all pages."""
        self._transport = transport
        self._room = room
        self._watches: dict[Listed, asyncio.Task[None]] = {}
        self._refused: set[Listed] = set()
        self._uids: frozenset[str] = frozenset()
        self._group: asyncio.TaskGroup | None = None
        self.heard = 0
        """Grows when something has changed that belongs to what was found."""

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While the context lasts, what `follow` names is watched."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in self._watches.values():
                    task.cancel()

    def follow(self, found: Found) -> None:
        """Watch, from now on, what was listed for this; no more what was for another."""
        if self._group is None:
            return
        self._uids = frozenset(_uids(found.root))
        for listed in self._watches.keys() - found.listed.keys():
            self._watches[listed].cancel()
        for listed, version in found.listed.items():
            if listed not in self._watches and listed not in self._refused and self._room.take():
                task = self._watches[listed] = self._group.create_task(
                    self._watch(listed, version), name=f"console-watch {listed.path}"
                )
                task.add_done_callback(partial(self._ended, listed))

    def _ended(self, listed: Listed, _: asyncio.Task[None]) -> None:
        self._room.free()
        del self._watches[listed]

    async def _watch(self, listed: Listed, version: str) -> None:
        query: Mapping[str, str] = {
            **dict(listed.query),
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": f"{_SECONDS}",
        }
        try:
            async with (
                self._transport.stream(
                    listed.path, query=query, accept=_METADATA, idle_timeout=_SILENCE
                ) as chunks,
                aclosing(watch_events(chunks)) as events,
            ):
                async for event in events:
                    self._hear(listed, event.object)
            self.heard += 1  # its time is over: the next look opens another one
        except Forbidden:
            self._refused.add(listed)
        except KubeError:
            pass  # the next look, by the tick, opens another one

    def _hear(self, listed: Listed, raw: bytes) -> None:
        try:
            meta = _decode(raw).metadata
        except (msgspec.DecodeError, RecursionError):  # whatever somebody has put there
            return
        uids = (meta.uid, *(owner.uid for owner in meta.owners or ()))
        if listed.all_concern or not self._uids.isdisjoint(uids):
            self.heard += 1


class Room:
    """How many watches there may be."""

    def __init__(self) -> None:
        self._left = MOST

    def take(self) -> bool:
        """Whether there may be one more."""
        if not self._left:
            return False
        self._left -= 1
        return True

    def free(self) -> None:
        """One is gone."""
        self._left += 1


def _uids(node: Node) -> list[str]:
    return [node.uid, *(uid for child in node.children for uid in _uids(child))]
