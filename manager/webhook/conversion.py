"""Answers to conversion reviews, in the form of bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Any

import msgspec
import orjson
from prometheus_client import Counter

from manager.telemetry.logs import get_logger, shortened
from manager.util.loop import own_turn
from manager.util.nesting import TOO_DEEP
from manager.util.rate_limit import Lines
from manager.webhook.denial import Refused
from manager.webhook.endpoint import LINES, Endpoint, TooCostly, encoded
from manager.webhook.registration import CONVERSION_PATH, Conversion, Convert
from manager.webhook.request import JsonObject
from manager.webhook.review import STORED_WORK, ConversionQuestion, apart, read_conversion

_FREE = ("labels", "annotations")
"""The metadata fields that a conversion may change. The API server refuses changes of others."""

_MOST = 256 * 1024
"""Bytes of all annotations of an object, including their keys, that the API server accepts."""

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"((?=.{{1,253}}/){_DOMAIN}(\.{_DOMAIN})*/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")

_TURN = 128 * 1024
"""Bytes of objects after which other reviews continue: a few milliseconds of work."""

_FIXED = 1024
"""The fixed cost of an object, in bytes."""

_log = get_logger("webhook")


class _Head(msgspec.Struct, rename="camel"):
    """The fields that must be known before a conversion, including unchangeable metadata."""

    api_version: str
    kind: str
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


_head = msgspec.json.Decoder(_Head)
_names = msgspec.json.Decoder(_Names)


_Step = tuple[Convert, str, bool]
"""A method, the version that it converts to, and whether it converts from the hub."""


class _NotConverted(Exception):
    """An object cannot be converted; the message is one line for the user, with the object's name if known.

    If the function has a bug, its error is the cause. `told` has the log fields that name the object.
    """

    def __init__(self, message: str, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(shortened(message))
        self.told = told or {}


class ConversionEndpoint(Endpoint[ConversionQuestion]):
    """The endpoint for the ConversionReviews of all convertible kinds.

    If an object cannot be converted, its whole review fails with the name of the object.
    """

    path = CONVERSION_PATH
    work = "the conversion"
    timeout_seconds = 30.0  # the API server's own limit

    identified = False  # https://github.com/kubernetes/kubernetes/issues/131810

    max_body = 12 * 1024 * 1024
    """Bytes of a review. Lists are converted as a whole, and clients decide about their length. This is
    enough for a page of 500 objects of 24 KB, as kubectl and informers request."""

    max_answer = 2 * max_body
    """Bytes of an answer. It is about as long as the review, but numbers like 1e15 are written out."""

    def __init__(self, conversions: Iterable[Conversion], *, panics: Counter) -> None:
        super().__init__(panics)
        self._partial_lines = Lines(per_minute=LINES)
        self._ways: dict[tuple[str, str, str], Sequence[_Step]] = {}
        """Paths between all versions of each kind: direct, or through the hub."""
        for each in conversions:
            hub = each.hub.gvk
            for start, end in product((each.hub, *each.spokes), repeat=2):
                way: list[_Step] = []
                if start is not end and start is not each.hub:
                    way.append((each.converters["to_hub", start], hub.api_version, False))
                if start is not end and end is not each.hub:
                    way.append((each.converters["from_hub", end], end.gvk.api_version, True))
                self._ways[hub.kind, start.gvk.api_version, end.gvk.api_version] = way

    async def _read(self, body: bytes | bytearray) -> ConversionQuestion:
        return await read_conversion(body)

    def _fields(self, question: ConversionQuestion) -> Mapping[str, Any]:
        return {"webhook": self.path, "uid": question.uid, "version": question.desired_api_version}

    async def _answer(self, question: ConversionQuestion) -> bytearray:
        try:
            converted = await self._all(question)
        except _NotConverted as error:
            if error.__cause__ is not None:
                self._panics.inc()
            cause, told = error.__cause__, error.told
            self._log_line("cannot convert the objects", question, error=str(error), exc_info=cause, **told)
            return _ended(_response_head(question.uid), {"status": "Failure", "message": str(error)})
        _log.debug("converted objects", objects=len(question.objects), **self._fields(question))
        return converted

    async def _all(self, question: ConversionQuestion) -> bytearray:
        """Return the response with all objects in order. Raises `_NotConverted` for the first failure."""
        answer = _response_head(question.uid)
        since_turn = 0
        for number, raw in enumerate(question.objects):
            since_turn += len(memoryview(raw)) + _FIXED
            if since_turn > _TURN:
                since_turn = 0
                await asyncio.sleep(0)
            if number:
                answer += b","
            answer += await self._convert(raw, question.desired_api_version, f"$.request.objects[{number}]")
            if len(answer) > self.max_answer:
                raise TooCostly(f"converted, the objects have more than {self.max_answer >> 20} MiB")
        return _ended(answer, {"status": "Success"})

    async def _convert(self, whole: msgspec.Raw, api_version: str, field: str) -> bytes | memoryview:
        """Convert the object in `whole`, which is at the path `field`, to `api_version`.

        Raises `_NotConverted` and `BadReview`.
        """
        raw, managed_fields = await apart(whole, field, STORED_WORK)
        size = len(memoryview(raw))
        await own_turn(size)
        try:
            head, content = _head.decode(raw), orjson.loads(memoryview(raw))
            names = _names.decode(head.metadata)
        except (msgspec.MsgspecError, orjson.JSONDecodeError, UnicodeDecodeError) as error:
            # The error only names places in the object, but may not name the object.
            raise _NotConverted(f"one of the objects cannot be read: {error}") from None
        if head.api_version == api_version:
            return memoryview(whole)
        key = f"{names.namespace}/{names.name}" if names.namespace else names.name
        which = f"{head.kind} {key} cannot be converted from {head.api_version} to {api_version}"
        told = {
            "kind": f"{head.kind}.{head.api_version}",
            "namespace": names.namespace,
            "name": names.name,
        }
        way = self._ways.get((head.kind, head.api_version, api_version))
        if way is None:
            raise _NotConverted(f"{which}: there is no function for it", told)
        try:
            for step in way:
                await own_turn(size)
                if left_out := await _go(step, content, head):
                    event = "some metadata were not converted"
                    self._partial_lines.log(_log.warning, event, error=left_out, **told)
            await own_turn(size)
            return _together(content, managed_fields)
        except Refused as refused:
            raise _NotConverted(f"{which}: {refused}", told) from None
        except RecursionError:
            raise _NotConverted(f"{which}: {TOO_DEEP}", told) from None
        except Exception as error:
            sort = type(error).__name__
            text = f"{which}: the function failed unexpectedly ({sort}); see the manager's log"
            raise _NotConverted(text, told) from error


async def _go(step: _Step, content: JsonObject, head: _Head) -> str:
    """Convert by one step; return the reason why some metadata stay unchanged, or "".

    A conversion to the hub, as for storage, raises `Refused` with the reason instead. A conversion from the
    hub does not, because an error would fail a whole list request.
    """
    convert, api_version, from_hub = step
    result: object = await convert(content)  # type: ignore[func-returns-value]  # authors may return any value
    if result is not None:
        raise TypeError("a function for conversion changes the object in place, and returns nothing")
    content["apiVersion"] = api_version
    content["kind"] = head.kind
    await own_turn(len(memoryview(head.metadata)))
    content["metadata"], refused = _guarded_metadata(head.metadata, content.get("metadata"))
    if refused and not from_hub:
        raise Refused(refused)
    return refused


def _guarded_metadata(original: msgspec.Raw, converted: Any) -> tuple[JsonObject, str]:
    """Return the original metadata with the new labels and annotations, and why a field is refused, or "".

    If the API server would reject a label or annotation, all labels or all annotations keep their old values.
    Raises `TypeError` with the field's name if labels or annotations are not maps of strings.
    """
    metadata: JsonObject = orjson.loads(memoryview(original))
    refused = ""
    for field in _FREE if isinstance(converted, dict) else ():
        if field not in converted:
            metadata.pop(field, None)
        elif (value := converted[field]) != metadata.get(field):
            _check_texts(value, field)
            if reason := _refusal(value or {}, metadata.get(field), field):
                refused = f"metadata.{field}{reason}"
            else:
                metadata[field] = value
    return metadata, refused


def _refusal(texts: Mapping[str, str], before: object, field: str) -> str:
    """Return why the API server would refuse the changes from `before` to `texts`; "" if it accepts them."""
    labels = field == "labels"
    known = before if isinstance(before, dict) else {}
    for key, text in texts.items():
        if known.get(key) == text:
            continue
        if _KEY.fullmatch(key if labels else key.lower()) is None:
            return f": {key[:63]!r} is no valid key"
        if labels and _VALUE.fullmatch(text) is None:
            return f"[{key}]: {text[:63]!r} is no valid value"
    size = 0 if labels else len("".join(chain(*texts.items())).encode(errors="surrogatepass"))
    return f" have {size} bytes with what the conversion adds, more than {_MOST}" if size > _MOST else ""


def _check_texts(value: Any, field: str) -> None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"metadata.{field} has become {type(value).__name__}, and has to be an object")
    for name, text in (value or {}).items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(
                f"metadata.{field}[{name}] has become {type(text).__name__}, and has to be a string"
            )


def _together(content: JsonObject, managed_fields: bytes) -> bytes:
    """Encode an object, and append the managedFields that `apart` has removed from it."""
    if not managed_fields:
        return encoded(content)
    metadata = content["metadata"] = content.pop("metadata")
    comma = b"," if metadata else b""
    return b'%b%b"managedFields":%b}}' % (encoded(content)[:-2], comma, managed_fields)


def _response_head(uid: str) -> bytearray:
    # The parts are JSON already. Encoding some thousand objects once more would take twice the time, and
    # storing them separately twice the memory.
    return bytearray(
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%b,%b'
        % (orjson.dumps(uid), b'"convertedObjects":[')
    )


def _ended(answer: bytearray, result: Mapping[str, str]) -> bytearray:
    answer += b'],"result":%b}}' % orjson.dumps(result)
    return answer
