"""Answering conversion reviews: a question in, the answer out, both as the bytes of a review."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any, NamedTuple

import msgspec
import orjson
from prometheus_client import Counter

from manager.api import Resource
from manager.telemetry.logs import get_logger
from manager.util.loop import own_turn
from manager.util.nesting import TOO_DEEP
from manager.util.rate_limit import Lines
from manager.webhook.denial import Refused
from manager.webhook.endpoint import (
    LINES,
    BadReview,
    FunctionFailed,
    NotConverted,
    TooCostly,
    Unanswered,
    answered,
    encoded,
    time_limit,
)
from manager.webhook.registration import CONVERSION_PATH, Conversion, Convert
from manager.webhook.request import JsonObject
from manager.webhook.review import STORED_WORK, ConversionQuestion, apart, read_conversion

_FREE = ("labels", "annotations")
"""Fields of metadata that a conversion may change. The API server refuses a review that changes others."""

_MOST = 256 * 1024
"""Bytes of all annotations of an object, with their keys, that the API server takes."""

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"((?=.{{1,253}}/){_DOMAIN}(\.{_DOMAIN})*/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")

_TURN = 128 * 1024
"""Bytes of objects after which others get their turn: a few milliseconds of work."""

_FIXED = 1024
"""What an object costs besides its length, in the same measure."""

_LONGEST_WAIT = 30.0
"""Seconds that the API server waits for a conversion."""

_log = get_logger("webhook")


class _Head(msgspec.Struct, rename="camel"):
    """Fields that must be known before a conversion, including the metadata that it must not change."""

    api_version: str
    kind: str
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


_head = msgspec.json.Decoder(_Head)
_names = msgspec.json.Decoder(_Names)


class _Step(NamedTuple):
    convert: Convert
    api_version: str
    from_hub: bool


class ConversionEndpoint:
    """Endpoint for conversion reviews of all convertible kinds."""

    path = CONVERSION_PATH

    identified = False  # https://github.com/kubernetes/kubernetes/issues/131810

    max_body = 12 * 1024 * 1024
    """Bytes of a review. Lists are converted in one piece, and clients decide how long they are. This is
    enough for a page of 500 objects of 24 KB, as kubectl and informers ask for."""

    max_answer = 2 * max_body
    """Bytes of an answer. It is about as long as the review, but numbers like 1e15 are written out."""

    def __init__(self, conversions: Iterable[Conversion], *, panics: Counter) -> None:
        """`panics` counts the times a function fails unexpectedly."""
        self._panics = panics
        self._lines, self._partial_lines = Lines(per_minute=LINES), Lines(per_minute=LINES)
        self._ways: dict[tuple[str, str, str], tuple[_Step, ...]] = {}
        """Paths between all versions of each kind: direct, or through the hub."""
        for conversion in conversions:
            for start, end in product((conversion.hub, *conversion.spokes), repeat=2):
                key = (start.gvk.kind, start.gvk.api_version, end.gvk.api_version)
                self._ways[key] = _way(conversion, start, end)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytes | bytearray:
        """Answer like `AdmissionEndpoint`; an object that cannot be converted fails its review by name."""
        question = await read_conversion(body)
        told = {"webhook": self.path, "uid": question.uid, "version": question.desired_api_version}
        limit = time_limit(waits, _LONGEST_WAIT)
        what = f"converting {len(question.objects)} objects"
        try:
            converted = await answered(self._all(question), what=what, uid=question.uid, seconds=limit)
        except NotConverted as error:
            if error.__cause__ is not None:
                self._panics.inc()
            self._log_failure("not converted", error, **told, **error.told)
            return _ended(_response_head(question.uid), {"status": "Failure", "message": str(error)})
        except BadReview:
            raise
        except Unanswered as error:
            if isinstance(error, FunctionFailed):
                self._panics.inc()
            self._log_failure("not answered", error, **told)
            raise
        _log.debug("converted", objects=len(question.objects), **told)
        return converted

    def _log_failure(self, event: str, error: Exception, **told: object) -> None:
        self._lines.log(_log.error, event, error=str(error), exc_info=error.__cause__, **told)

    async def _all(self, question: ConversionQuestion) -> bytearray:
        """Return the response with all objects in order. Raises `NotConverted` for the first failure."""
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
        """Convert the object in `whole`, found at `field`, to `api_version`.

        Raises `NotConverted` and `TooCostly`.
        """
        raw, managed_fields = await apart(whole, field, STORED_WORK)
        size = len(memoryview(raw))
        await own_turn(size)
        try:
            head, content = _head.decode(raw), orjson.loads(memoryview(raw))
            names = _names.decode(head.metadata)
        except (msgspec.MsgspecError, orjson.JSONDecodeError, UnicodeDecodeError) as error:
            # Its text can be of places in the object only, but may not say which object.
            raise NotConverted(f"one of the objects cannot be read: {error}") from None
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
            raise NotConverted(f"{which}: there is no function for it", told=told)
        try:
            for step in way:
                await own_turn(size)
                if left_out := await _go(step, content, head):
                    event = "not converted as a whole"
                    self._partial_lines.log(_log.warning, event, error=left_out, **told)
            await own_turn(size)
            return _together(content, managed_fields)
        except Refused as refused:
            raise NotConverted(f"{which}: {refused}", told=told) from None
        except RecursionError:
            raise NotConverted(f"{which}: {TOO_DEEP}", told=told) from None
        except Exception as error:
            sort = type(error).__name__
            text = f"{which}: the function failed unexpectedly ({sort}); the log of the manager says more"
            raise NotConverted(text, told=told) from error


def _way(conversion: Conversion, start: type[Resource], end: type[Resource]) -> tuple[_Step, ...]:
    hub, steps = conversion.hub, []
    if start is not end and start is not hub:
        steps.append(_Step(conversion.converters_to_hub[start], hub.gvk.api_version, from_hub=False))
    if start is not end and end is not hub:
        steps.append(_Step(conversion.converters_from_hub[end], end.gvk.api_version, from_hub=True))
    return tuple(steps)


async def _go(step: _Step, content: JsonObject, head: _Head) -> str:
    """Take the step, and return the reason why a part of the metadata stays as it was, or "".

    On the way to the hub, for storage, that is an error. On the way from it, it would hide the whole list.
    """
    result: object = await step.convert(content)  # type: ignore[func-returns-value]  # whatever it really does
    if result is not None:
        raise TypeError("a function for conversion changes the object in place, and returns nothing")
    content["apiVersion"] = step.api_version
    content["kind"] = head.kind
    await own_turn(len(memoryview(head.metadata)))
    content["metadata"], refused = _guarded_metadata(head.metadata, content.get("metadata"))
    if refused and not step.from_hub:
        raise Refused(refused)
    return refused


def _guarded_metadata(original: msgspec.Raw, converted: Any) -> tuple[JsonObject, str]:
    """Return the original metadata with labels and annotations of `converted`, and the reason of a refusal.

    A label or annotation that the API server would reject keeps its old value. Raises `TypeError`, naming the
    field, when labels or annotations are not strings by name.
    """
    metadata: JsonObject = orjson.loads(memoryview(original))
    refused = ""
    if not isinstance(converted, dict):
        return metadata, refused
    for field in _FREE:
        if field not in converted:
            metadata.pop(field, None)
        elif (value := converted[field]) != metadata.get(field):
            if reason := _refusal(_texts(value, field) or {}, metadata.get(field), field):
                refused = f"metadata.{field}{reason}"
            else:
                metadata[field] = value
    return metadata, refused


def _refusal(texts: Mapping[str, str], before: object, field: str) -> str:
    """Return why the API server would refuse these, which it had as `before`; "" when it accepts them."""
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


def _texts(value: Any, field: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"metadata.{field} has become {type(value).__name__}, and has to be an object")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(
                f"metadata.{field}[{name}] has become {type(text).__name__}, and has to be a text"
            )
    return value


def _together(content: JsonObject, managed_fields: bytes) -> bytes:
    """Encode an object, with the managedFields that `apart` took out of it back at the end."""
    if not managed_fields:
        return encoded(content)
    metadata = content["metadata"] = content.pop("metadata")
    comma = b"," if metadata else b""
    return b'%b%b"managedFields":%b}}' % (encoded(content)[:-2], comma, managed_fields)


def _response_head(uid: str) -> bytearray:
    # The parts are JSON already. To encode some thousand objects once more would take as long again, and to
    # hold them apart as much memory.
    return bytearray(
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%b,%b'
        % (orjson.dumps(uid), b'"convertedObjects":[')
    )


def _ended(answer: bytearray, result: Mapping[str, str]) -> bytearray:
    answer += b'],"result":%b}}' % orjson.dumps(result)
    return answer
