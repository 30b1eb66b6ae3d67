"""Turning an object of one version into the same object in another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import orjson

from manager.api import Resource
from manager.logs import shortened
from manager.webhook.bounds import own_turn
from manager.webhook.conversion import Conversion, Convert
from manager.webhook.encoding import encoded
from manager.webhook.json_object import JsonObject
from manager.webhook.metadata_guard import guarded_metadata
from manager.webhook.refused import Refused

__all__ = ["Converter", "NotConverted"]


class NotConverted(Exception):
    """An object cannot be converted; one line for the user, which names it.

    If a fault of the function is the reason, it is the cause.
    `told` has what a line of the log says of the object.
    """

    def __init__(self, message: str, *, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(shortened(message))
        self.told = told or {}


class _Step(NamedTuple):
    """One function on the way, and the version that is there after it."""

    convert: Convert
    api_version: str


class _Head(msgspec.Struct, rename="camel"):
    """What has to be known of an object before it is converted, and what stays as it is."""

    api_version: str
    kind: str
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


_head = msgspec.json.Decoder(_Head)
_names = msgspec.json.Decoder(_Names)


class Converter:
    """Knows the way from each version of each kind to each other one: straight, or by the hub."""

    def __init__(self, conversions: Iterable[Conversion]) -> None:
        self._ways: dict[tuple[str, str, str], tuple[_Step, ...]] = {}
        for conversion in conversions:
            for start in (conversion.hub, *conversion.spokes):
                for end in (conversion.hub, *conversion.spokes):
                    key = (start.gvk.kind, start.gvk.api_version, end.gvk.api_version)
                    self._ways[key] = _way(conversion, start, end)

    async def convert(self, raw: msgspec.Raw, api_version: str) -> bytes | memoryview:
        """The object in `raw` in that version. Raises `NotConverted`."""
        size = len(memoryview(raw))
        await own_turn(size)
        try:
            head, content = _head.decode(raw), orjson.loads(memoryview(raw))
            names = _names.decode(head.metadata)
        except (msgspec.MsgspecError, orjson.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            # Its text can be of places in the object only, but may not say which object.
            raise NotConverted(f"one of the objects is none: {error}") from None
        if head.api_version == api_version:
            return memoryview(raw)
        key = f"{names.namespace}/{names.name}" if names.namespace else names.name
        which = f"{head.kind} {key} cannot be converted from {head.api_version} to {api_version}"
        told = {
            "kind": f"{head.kind}.{head.api_version}",
            "namespace": names.namespace,
            "name": names.name,
        }
        way = self._ways.get((head.kind, head.api_version, api_version))
        if way is None:
            raise NotConverted(f"{which}: there is no function for it", told=told)
        try:
            for step in way:
                await own_turn(size)
                await _go(step, content, head)
            await own_turn(size)
            return encoded(content)
        except Refused as refused:
            raise NotConverted(f"{which}: {refused}", told=told) from None
        except RecursionError:
            raise NotConverted(f"{which}: it is nested too deeply", told=told) from None
        except Exception as error:
            sort = type(error).__name__
            text = f"{which}: the function failed unexpectedly ({sort}); the log of the manager says more"
            raise NotConverted(text, told=told) from error


def _way(conversion: Conversion, start: type[Resource], end: type[Resource]) -> tuple[_Step, ...]:
    steps = []
    if start is not conversion.hub and start is not end:
        steps.append(_Step(conversion.converters_to_hub[start], conversion.hub.gvk.api_version))
    if end is not conversion.hub and start is not end:
        steps.append(_Step(conversion.converters_from_hub[end], end.gvk.api_version))
    return tuple(steps)


async def _go(step: _Step, content: JsonObject, head: _Head) -> None:
    result: object = await step.convert(content)  # type: ignore[func-returns-value]  # whatever it really does
    if result is not None:
        raise TypeError("a function for conversion changes the object in place, and returns nothing")
    content["apiVersion"] = step.api_version
    content["kind"] = head.kind
    await own_turn(len(memoryview(head.metadata)))
    content["metadata"] = guarded_metadata(head.metadata, content.get("metadata"))
