"""Parsing of AdmissionReview and ConversionReview, both v1, within a limit of cost.

A parser cannot be interrupted, and the length of a text does not show its cost: a megabyte of one string
takes half a millisecond, but a megabyte of empty lists takes seventy, and 30 MB of memory.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from manager.api import GroupVersionKind
from manager.api.resource import fields
from manager.kube.decoding import is_for_depth, shallow
from manager.util.loop import own_turn
from manager.util.nesting import TOO_DEEP, is_too_deep
from manager.webhook.endpoint import BadReview, TooCostly
from manager.webhook.request import AdmissionRequest, JsonObject, Operation, UserInfo

MAX_OBJECT = 3 * 1024 * 1024
"""Bytes of one object. The API server accepts no larger request, and etcd stores half of that."""

STORED_WORK = 150_000
"""The cost limit of a stored object without its managedFields; 1.2 MB of a Pet, or 3 MB with few fields, cost
less. A more expensive object cannot be converted, and makes whole lists fail."""

ROOM = 5_000
"""A reserve for parts that no review shows: for a deletion its time, the grace period and a finalizer (5),
and a status (some tens; 1,000 with a hundred conditions)."""

CHANGED_WORK = STORED_WORK - ROOM
"""The cost limit of a changed object, unless the stored one cost as much."""

CREATED_WORK = CHANGED_WORK - ROOM
"""The cost limit of an object to which its operator will add its finalizer, and perhaps annotations."""

USER_WORK = 50_000
"""The cost limit of the user's information, and of a request's options."""

_OBJECTS = 100_000
"""The number of objects in a review for conversion."""

_NAMED = (b'"apiVersion"', b"\\u006", b"\\u007", b"\\u0056")
"""Byte sequences, one of which is in every spelling of this name, even with escaped letters."""

_BYTES = 48
"""The number of bytes that cost as much as one comma. A list or object costs two, and one for each member."""

_MOST_FOR_A_BYTE = 2 + 1 / _BYTES

_NOTHING = memoryview(b"")

_CHUNK = 128 * 1024
"""Bytes that are counted without a pause: about a millisecond."""

Q = TypeVar("Q", bound="AdmissionQuestion | ConversionQuestion | _VersionsQuestion")


class _Camel(msgspec.Struct, rename="camel"):
    """A base class with Kubernetes' spelling of names."""


class Kind(_Camel):
    """Group, version and kind in a review."""

    version: str
    kind: str
    group: str = ""

    @property
    def gvk(self) -> GroupVersionKind:
        """Return the kind as a `GroupVersionKind`."""
        return GroupVersionKind(self.group, self.version, self.kind)


class _Resource(_Camel):
    resource: str


class _User(_Camel):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class AdmissionQuestion(_Camel):
    """The `request` of an AdmissionReview; objects stay undecoded bytes until they are needed."""

    uid: str
    kind: Kind
    resource: _Resource
    operation: Operation
    sub_resource: str | None = None
    request_kind: Kind | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: msgspec.Raw = msgspec.Raw(b"{}")
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()
    options: msgspec.Raw = msgspec.Raw()

    async def request(self, finalizer: str = "") -> AdmissionRequest:
        """Decode the objects and return the request for a webhook function. Raises `BadReview`.

        `finalizer` is the finalizer that the kind's operator will add.
        """
        for field, part in (("userInfo", self.user_info), ("options", self.options)):
            await check_object(memoryview(part), f"$.request.{field}", USER_WORK)
            if is_too_deep(part):
                raise BadReview(f"`$.request.{field}` is nested too deeply")
        try:
            user = _user.decode(self.user_info)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadReview(f"`$.request.userInfo` cannot be read: {_reason(error)}") from None
        asked, kind = self.request_kind, self.kind.gvk
        self.old_object, _ = await apart(self.old_object, "$.request.oldObject", STORED_WORK)
        self.object = await self._affordable_object(finalizer)
        return AdmissionRequest(
            uid=self.uid,
            operation=self.operation,
            kind=kind,
            resource=self.resource.resource,
            name=self.name or "",
            namespace=self.namespace or "",
            user=UserInfo(user.username, tuple(user.groups or ()), user.uid, user.extra or {}),
            dry_run=bool(self.dry_run),
            subresource=self.sub_resource or "",
            requested_kind=None if asked is None or asked.gvk == kind else asked.gvk,
            options=await _read_object(self.options, "options") or {},
            object=await _read_object(self.object, "object"),
            old_object=await _read_object(self.old_object, "oldObject"),
        )

    async def _affordable_object(self, finalizer: str) -> msgspec.Raw:
        field, old = "$.request.object", memoryview(self.old_object)
        try:
            return (await apart(self.object, field, CREATED_WORK))[0]
        except TooCostly:
            if not old or old == _NULL:
                raise
            # The operator has yet to add its finalizer, and needs room for it.
            readable, _ = await apart(self.object, field, STORED_WORK)
            await own_turn(len(memoryview(readable)))
            if finalizer and _lacks(readable, finalizer):
                raise
        # The object may have cost more before, and the user may only want to remove a finalizer.
        before = await work_of(old, managed_fields(self.old_object), enough=STORED_WORK)
        return (await apart(self.object, field, min(max(before, CHANGED_WORK), STORED_WORK)))[0]


class ConversionQuestion(_Camel):
    """The `request` of a ConversionReview."""

    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw] = msgspec.field(default_factory=list)


class _Version(_Camel, gc=False):
    api_version: str


class _VersionsQuestion(_Camel):
    uid: str
    objects: list[_Version]


class _Review(_Camel, Generic[Q]):
    api_version: str
    kind: str
    request: Q


_AROUND_ONE, _AROUND_EACH = 2, 3
"""The number of JSON levels around an object in an AdmissionReview, and in a ConversionReview.

If a review is nested too deeply for the interpreter's stack, it is cut off one level below the limit. So all
Python versions refuse the same objects, and `apart` still removes managedFields."""

_NULL = memoryview(b"null")

_FEW = 1024 * 1024
"""Bytes of a review that cannot have too many objects, however small they are."""

_LONGEST_UID = 128
"""The maximum length of a UID. The API server's UIDs have 36 characters, and each answer repeats them."""

_ADMISSION = "admission.k8s.io/v1", "AdmissionReview"
_CONVERSION = "apiextensions.k8s.io/v1", "ConversionReview"
_admission = msgspec.json.Decoder(_Review[AdmissionQuestion])
_conversion = msgspec.json.Decoder(_Review[ConversionQuestion])
_versions = msgspec.json.Decoder(_Review[_VersionsQuestion])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_user = msgspec.json.Decoder(_User)


async def read_admission(body: bytes | bytearray) -> AdmissionQuestion:
    """Decode the request of an AdmissionReview. Raises `BadReview` with the reason."""
    try:
        return _opened(body, _admission, *_ADMISSION)
    except RecursionError:
        # Deeply nested managedFields must not prevent the removal of a finalizer.
        return _opened(await shallow(body, around=_AROUND_ONE + 1), _admission, *_ADMISSION)


async def read_conversion(body: bytes | bytearray) -> ConversionQuestion:
    """Decode the request of a ConversionReview. Raises `BadReview` with the reason."""
    count = 0
    for form in _NAMED if len(body) > _FEW else ():
        count += body.count(form)
        await asyncio.sleep(0)
    # Keeping an object costs much more than skipping a comma, so the number of objects is limited.
    if count > _OBJECTS:
        raise TooCostly(f"a review here has at most {_OBJECTS} objects")
    try:
        return await _conversion_in(body)
    except RecursionError:
        # One such object must not prevent others from being listed.
        return await _conversion_in(await shallow(body, around=_AROUND_EACH + 1))


async def _conversion_in(body: bytes | bytearray) -> ConversionQuestion:
    if len(body) > _FEW:
        _opened(body, _versions, *_CONVERSION)
        await asyncio.sleep(0)
    return _opened(body, _conversion, *_CONVERSION)


def managed_fields(raw: msgspec.Raw) -> memoryview:
    """Return the undecoded managedFields of an object; empty if there are none."""
    try:
        return memoryview(_members.decode(_members.decode(raw)["metadata"])["managedFields"])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError):
        return memoryview(b"")


def _lacks(raw: msgspec.Raw, finalizer: str) -> bool:
    """Return whether an object lacks the finalizer and is not being deleted."""
    try:
        metadata = fields(orjson.loads(memoryview(raw)), "metadata")
    except orjson.JSONDecodeError:
        return False  # the API server would not have sent invalid JSON from its store
    finalizers = metadata.get("finalizers")
    held = finalizers if isinstance(finalizers, list) else ()
    return not metadata.get("deletionTimestamp") and finalizer not in held


async def apart(raw: msgspec.Raw, field: str, limit: int) -> tuple[msgspec.Raw, bytes]:
    """Return the object, and separately its managedFields if they are too costly or too deeply nested.

    managedFields grow with each writer, and the API server ignores them in an answer. Raises `TooCostly` if
    the object costs more than `limit` without them, and `BadReview` if it is nested too deeply.
    """
    content = memoryview(raw)
    try:
        await check_object(content, field, limit)
        if not is_too_deep(raw):
            return raw, b""
        raw = msgspec.Raw(await shallow(bytes(raw), around=1))
        content = memoryview(raw)
    except TooCostly:
        if len(content) > MAX_OBJECT or not managed_fields(raw):
            raise
    kept = managed_fields(raw)
    await check_object(content, field, limit, passed_over=kept)  # other tasks may run meanwhile
    if kept:
        members = _members.decode(raw)
        metadata = _members.decode(members["metadata"])
        del metadata["managedFields"]
        members["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
        raw = msgspec.Raw(msgspec.json.encode(members))
    if is_too_deep(raw):
        raise BadReview(f"`{field}` is nested too deeply")
    return raw, bytes(kept)


def _opened(
    body: bytes | bytearray, decoder: msgspec.json.Decoder[_Review[Q]], api_version: str, kind: str
) -> Q:
    expected = f"an {kind} of {api_version}" if kind[0] in "AEIOU" else f"a {kind} of {api_version}"
    try:
        review = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = TOO_DEEP if is_for_depth(error, body) else _reason(error)
        raise BadReview(f"this is not {expected}: {reason}") from None
    if (review.api_version, review.kind) != (api_version, kind):
        raise BadReview(f"this is not {expected} but {review.api_version} {review.kind}")
    if not review.request.uid:
        raise BadReview(f"this is not {expected}: `$.request.uid` is empty")
    if len(review.request.uid) > _LONGEST_UID:
        raise BadReview(f"this is not {expected}: `$.request.uid` has more than {_LONGEST_UID} characters")
    return review.request


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error)


async def _read_object(raw: msgspec.Raw, field: str) -> JsonObject | None:
    """Decode the object in a request's `field`; its cost and depth must have been checked before.

    Return None if the object is missing. Raises `BadReview`.
    """
    content = memoryview(raw)
    if not content or content == _NULL:
        return None
    await own_turn(len(content))
    try:
        value: Any = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"`$.request.{field}` is not JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise BadReview(f"`$.request.{field}` is not an object")
    return value


async def check_object(
    content: bytes | bytearray | memoryview,
    field: str,
    limit: int = STORED_WORK,
    *,
    passed_over: memoryview = _NOTHING,
) -> None:
    """Raise `TooCostly` for an object that is too large, or has too many members; `field` is its path.

    The members in `passed_over` do not count.
    """
    if len(content) > MAX_OBJECT:
        raise TooCostly(f"`{field}` has {len(content)} bytes, and an object has at most {MAX_OBJECT}")
    if len(content) * _MOST_FOR_A_BYTE <= limit:
        return
    if await work_of(content, passed_over, enough=limit) > limit:
        allowed = limit - (len(content) - len(passed_over)) // _BYTES
        raise TooCostly(f"`{field}` has more lists, objects and members than the limit of about {allowed}")


async def work_of(
    content: bytes | bytearray | memoryview, passed_over: memoryview = _NOTHING, *, enough: int
) -> int:
    """Estimate the work to decode JSON without the part `passed_over`; a result above `enough` is inexact."""
    kept = await _structure(passed_over, len(passed_over) * 2)
    length = (len(content) - len(passed_over)) // _BYTES
    return length + await _structure(content, enough - length + kept) - kept


async def _structure(content: bytes | bytearray | memoryview, enough: int) -> int:
    """Count the cost of commas and brackets outside of strings; stop after `enough`.

    The count is exact while the text is valid JSON; a parser stops at the first error, too.
    """
    count, inside, position = 0, False, 0
    while position < len(content) and count <= enough:
        chunk = bytes(content[position : position + _CHUNK])
        # A backslash and the following byte belong together.
        chunk = chunk[: len(chunk) - (len(chunk) - len(chunk.rstrip(b"\\"))) % 2] or chunk
        position += len(chunk)
        parts = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        chunk = b" ".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        count += 2 * (chunk.count(b"{") + chunk.count(b"[")) + chunk.count(b",")
        await asyncio.sleep(0)
    return count
