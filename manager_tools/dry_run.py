"""A transport that sends every write as a dry run, and records the writes."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import orjson

from devcluster.patch.json_patch import json_patch, merge_patch
from manager.client.comparison import place_in
from manager.client.managed_fields import release
from manager.client.write import APPLY_PATCH, DRY_RUN, JSON, JSON_PATCH, merge_diff
from manager.kube.decoding import json_object
from manager.kube.errors import ApiError, Conflict, Fenced, Invalid, NotFound
from manager.kube.transport import Head, Transport
from manager.kube.wire import LONGEST, WebSocket

Object = dict[str, Any]

IN_A_POD = "the next action is in a pod, and a plan runs nothing there"
"""The reason, shown to users, why a plan ends at a command in a pod."""

_UNSTORED = 2**62
"""The first resourceVersion of unstored objects: newer than all stored ones, for the caches."""

_COLLECTION, _OBJECT = 1, 2


class Change(NamedTuple):
    """An object before and after the planned writes; None where the object does not exist."""

    before: Object | None
    after: Object | None
    renamed: bool
    """Whether the apply may remove more fields than the plan shows, because it first takes over fields."""
    untried: bool = False
    """Whether the API server could not try the status: the installed CRD has no status subresource."""


class _Planned:
    def __init__(self, stored: Object | None) -> None:
        self.stored = stored
        self.after = stored
        """The object after the writes; it shares values with `stored`, so it must not be changed in place."""
        self.taken_over: list[Object] = []
        """The entries of managedFields that an apply merges: after the merge, then before."""
        self.untried = False


class _Plan:
    def __init__(self) -> None:
        self.planned: dict[str, _Planned] = {}
        self.touched: dict[str, None] = {}
        self.other: list[str] = []

    def taken(self) -> tuple[list[Change], list[str]]:
        planned = [self.planned[path] for path in self.touched]
        changes = [Change(each.stored, each.after, bool(each.taken_over), each.untried) for each in planned]
        return changes, self.other


_plan: ContextVar[_Plan | None] = ContextVar("plan", default=None)


class DryRunTransport(Transport):
    """A transport that makes every write a dry run; a later GET of the object returns the planned result.

    It is the operators' only connection to the API server, so no write can bypass it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._default = _Plan()
        self._versions = _UNSTORED

    @property
    def _plan(self) -> _Plan:
        return _plan.get() or self._default

    @contextmanager
    def planning(self) -> Iterator[Callable[[], tuple[list[Change], list[str]]]]:
        """Collect the writes of one reconcile, from the current context and the tasks started in it.

        The yielded function returns the changes of objects, and a text for each other request. After the
        block, the cache still contains the changes, but reads no longer return them.
        """
        plan = _Plan()
        token = _plan.set(plan)
        try:
            yield plan.taken
        finally:
            _plan.reset(token)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        deadline: float | None = None,
        longest: int = LONGEST,
        name: str = "",
        head: Head | None = None,
    ) -> bytes:
        """Send a request as `Transport.request` does, but a write as a dry run."""
        send = partial(
            super().request, accept=accept, content_type=content_type, deadline=deadline, longest=longest
        )
        answer = await self._try(send, method, path, query, body, content_type, name)
        if head is not None:
            head(HTTPStatus.OK, {"Content-Type": accept})
        return answer

    @asynccontextmanager
    async def websocket(self, path: str, **_: Any) -> AsyncIterator[WebSocket]:
        """Record the connection, and raise Fenced: a dry run cannot include a command in a pod."""
        yield self._refused(path)

    def _refused(self, path: str) -> WebSocket:
        self._plan.other.append(f"CONNECT {path}")
        raise Fenced(IN_A_POD)

    async def _try(
        self,
        send: Callable[..., Awaitable[bytes]],
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        name: str,
    ) -> bytes:
        if method == "GET":
            known = self._plan.planned.get(path)
            return await send(method, path, query=query) if known is None else self._shown(path, known)
        if "dryRun" in (query or {}) and path not in self._plan.planned:
            return await send(method, path, query=query, body=body)  # the operator itself requests a dry run
        if method == "DELETE":
            # An API server ignores the options in the query if the body has options.
            body = orjson.dumps({**(orjson.loads(body) if body else {}), "dryRun": ["All"]})
        else:
            query = {**(query or {}), **DRY_RUN}
        where, steps, subresource = _place(path)
        if method == "POST" and steps == _COLLECTION:
            raw = await send(method, path, query=query, body=body, name=name)
            created = json_object(raw, "an object")
            called = name or (created.get("metadata") or {}).get("name")
            # An object without a name is a query, such as a SubjectAccessReview.
            return self._becomes(f"{path}/{called}", _Planned(None), created) if called else raw
        if steps >= _OBJECT and subresource in {"", "status"} and method != "POST":
            # NotFound if the object is missing, as the write itself would raise.
            planned = await self._of(where, missing=content_type == APPLY_PATCH)
            body = _of_stored(body, planned, content_type)
            write = _Write(method, query, body, content_type, subresource)
            return await self._write(where, planned, write, partial(send, method, path, query=query))
        raw = await send(method, path, query=query, body=body)
        if method == "DELETE":
            found = json_object(raw, "an answer")
            for each in found.get("items") or ():
                self._becomes(f"{where}/{each['metadata']['name']}", _Planned(each), None)
        else:
            self._plan.other.append(f"{method} {path}")
        return raw

    async def _write(
        self, where: str, planned: _Planned, write: _Write, send: Callable[..., Awaitable[bytes]]
    ) -> bytes:
        if planned.stored is None and planned.after is not None:
            return self._becomes(where, planned, write.put_into_effect(planned.after))
        applies = bool(planned.taken_over) and write.content_type == APPLY_PATCH
        try:
            raw = await send(body=_with_released(write.body, planned) if applies else write.body)
        except NotFound:
            if write.subresource != "status" or planned.stored is None or planned.after is None:
                raise
            # The object exists, so the installed CRD has no status subresource.
            planned.untried = True
            return self._becomes(where, planned, write.put_into_effect(planned.after))
        except (Conflict, Invalid):
            if where not in self._plan.touched or planned.after is None:
                raise
            if write.content_type == APPLY_PATCH:
                if not _has(planned.after, orjson.loads(write.body or b"{}")):
                    raise
                return self._shown(where, planned)  # the planned writes before it make the same changes
            # The API server may refuse the patch only because earlier planned writes are not stored.
            return self._becomes(where, planned, write.put_into_effect(planned.after))
        if write.method == "DELETE":
            self._becomes(where, planned, None)
            return raw
        after = json_object(raw, "an object")
        if applies:
            after = await self._applied(where, planned, after, write.query)
        if planned.stored is not None and planned.after is not None:
            after = merge_patch(planned.after, merge_diff(planned.stored, after))
        if write.content_type == JSON_PATCH and b"/metadata/managedFields/" in (write.body or b""):
            operations = orjson.loads(write.body or b"[]")
            ours = [each["value"] for each in operations if each["op"] == "replace"]
            planned.taken_over = [*ours, *(each["value"] for each in operations if each["op"] == "test")]
        return self._becomes(where, planned, after)

    async def _applied(
        self, where: str, planned: _Planned, after: Object, query: Mapping[str, str] | None
    ) -> Object:
        """Return the result of an apply that takes over fields from another field manager.

        `_without_dropped` computes this result, and a second dry run adds defaults for removed fields. If the
        API server refuses the second dry run, the unchanged `after` is returned.
        """
        manager = (query or {}).get("fieldManager", "")
        left = _without_dropped(after, planned.taken_over[1:], manager)
        if left != after:
            left["metadata"]["resourceVersion"] = (planned.stored or after)["metadata"]["resourceVersion"]
            left["metadata"].pop("managedFields", None)
            sent = {"fieldManager": manager, **DRY_RUN}
            try:
                raw = await super().request("PUT", where, query=sent, body=orjson.dumps(left))
            except ApiError:
                return after
            after = json_object(raw, "an object")
        planned.taken_over = []
        return after

    def _becomes(self, where: str, planned: _Planned, after: Object | None) -> bytes:
        planned.after = after
        self._plan.planned[where] = planned
        self._plan.touched[where] = None
        return b'{"kind":"Status","status":"Success"}' if after is None else self._shown(where, planned)

    async def _of(self, where: str, *, missing: bool) -> _Planned:
        planned = self._plan.planned.get(where)
        if planned is None:
            stored: Object | None = None
            try:
                stored = json_object(await super().request("GET", where), "an object")
            except NotFound:
                if not missing:
                    raise
            planned = self._plan.planned[where] = _Planned(stored)
        elif planned.after is None and not missing:
            raise _not_found(where)
        return planned

    def _shown(self, where: str, planned: _Planned) -> bytes:
        """Return the planned object, with a higher resourceVersion than all earlier results."""
        after = planned.after
        if after is None:
            raise _not_found(where)
        self._versions += 1
        metadata = {**after["metadata"], "resourceVersion": str(self._versions)}
        # Copy the bytes for the cache: orjson's result keeps a buffer of at least twice its size.
        return bytes(memoryview(orjson.dumps({**after, "metadata": metadata})))


class _Write(NamedTuple):
    method: str
    query: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    subresource: str

    def put_into_effect(self, there: Object) -> Object | None:
        """Return the object after the write, for a write that the API server cannot try on this object."""
        if self.method == "DELETE":
            return None
        wanted: Any = orjson.loads(self.body or b"null")
        if self.content_type == JSON_PATCH:
            # Only the API server can test a condition on stored data.
            return cast("Object", json_patch(there, [each for each in wanted if each["op"] != "test"]))
        if self.content_type != JSON:
            return cast("Object", merge_patch(there, wanted))
        return {**there, "status": wanted.get("status")} if self.subresource else cast("Object", wanted)


def _of_stored(body: bytes | None, planned: _Planned, content_type: str) -> bytes | None:
    """Return the body with a resourceVersion of the plan replaced by the stored resourceVersion."""
    if not body or content_type == JSON_PATCH or b'"resourceVersion"' not in body:
        return body
    told = orjson.loads(body)
    demanded = str((told.get("metadata") or {}).get("resourceVersion") or "")
    if demanded.isdigit() and int(demanded) > _UNSTORED:
        stored = planned.stored or {"metadata": {}}
        told["metadata"]["resourceVersion"] = stored["metadata"].get("resourceVersion", "")
    return orjson.dumps(told)


def _place(path: str) -> tuple[str, int, str]:
    """Split a path: path of the object or collection, number of segments after the namespace, subresource."""
    parts = path.strip("/").split("/")
    skipped = 2 if parts[0] == "api" else 3
    rest = parts[skipped:]
    of_namespace = len(rest) == 3 and rest[2] in {"status", "finalize"}  # noqa: PLR2004 - the path of a Namespace
    if rest[:1] == ["namespaces"] and len(rest) > 2 and not of_namespace:  # noqa: PLR2004 - with a name
        skipped += 2
        rest = rest[2:]
    subresource = "/".join(rest[2:])
    return "/" + "/".join(parts[: skipped + 2]), len(rest), subresource


def _not_found(path: str) -> ApiError:
    plural, name = path.split("/")[-2:]
    return NotFound(404, "NotFound", f'{plural} "{name}" not found', details={"name": name, "kind": plural})


def _has(there: Any, wanted: Any) -> bool:
    """Return whether the object `there` already has all fields and values of `wanted`."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(_has(there.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and all(any(_has(one, each) for one in there) for each in wanted)
    return bool(there == wanted)


def _with_released(body: bytes | None, planned: _Planned) -> bytes:
    """Return an apply's body with the values of the fields that it releases, so that none is removed."""
    wanted = orjson.loads(body or b"{}")
    ours, *taken_over = planned.taken_over
    for each in taken_over:
        _fill(wanted, planned.stored, each.get("fieldsV1") or {}, ours.get("fieldsV1") or {})
    return orjson.dumps(wanted)


def _fill(wanted: Any, there: Any, owned: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Copy the values of fields in `owned` but not in `kept` from `there` into `wanted`."""
    for path, below in owned.items():
        if path.startswith("f:") and isinstance(wanted, dict) and isinstance(there, dict):
            step = path[2:]
            if path not in kept and step in there:
                wanted.setdefault(step, there[step])
            elif step in wanted and step in there:
                _fill(wanted[step], there[step], below, kept[path])
        elif path.startswith("k:") and isinstance(wanted, list) and isinstance(there, list):
            place, stored = place_in(wanted, path), place_in(there, path)
            if stored is not None and path not in kept:
                wanted.append(there[stored])
            elif stored is not None and place is not None:
                _fill(wanted[place], there[stored], below, kept[path])


def _without_dropped(answer: Object, taken_over: list[Object], manager: str) -> Object:
    """Return an object without the fields that the apply of `manager` no longer contains.

    Without dry run, the client first merges entries in managedFields (see `client.managed_fields`), so that
    the API server then removes these fields.
    """
    joined = {(each.get("manager"), each.get("operation")) for each in taken_over} - {(manager, "Apply")}
    entries = [each for each in answer["metadata"].get("managedFields", ()) if not each.get("subresource")]
    dropped = [each for each in entries if (each.get("manager"), each.get("operation")) in joined]
    kept = [each.get("fieldsV1") or {} for each in entries if each not in dropped]
    left = copy.deepcopy(answer)
    for each in dropped:
        release(left, each.get("fieldsV1") or {}, kept)
    return left
