"""An `ApiClient` of kubernetes-asyncio whose requests use the manager's transport.

Imported by `Client.kubernetes_client`: kubernetes-asyncio takes 43 MB and a quarter of a second.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import unquote

import orjson
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.client.exceptions import ApiException, ApiValueError
from multidict import CIMultiDict

from manager.api import GroupVersionKind, ObjectKey, Unstructured
from manager.api.resource import fields
from manager.cache import Cache
from manager.kube.errors import ApiError, DeadlineExceeded, ProtocolError
from manager.kube.transport import Transport
from manager.kube.wire import LONGEST, LONGEST_LIST
from manager_kubernetes_asyncio.pod_streams import (
    IDLE_TIMEOUT,
    LONGEST_OUTPUT,
    PORT_CHANNELS,
    PROCESS_CHANNELS,
)

LONGEST_LINE = 16 * 1024 * 1024
"""The maximum length of a stream's line in bytes: a watch event is one line with a whole object."""

_HEADERS = {"accept", "content-type", "user-agent"}

_connects = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward)").fullmatch

_named = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)/(?P<name>[^/]+)"
).fullmatch

_STDOUT, _STDERR = 1, 2


class TransportApiClient(ApiClient):
    """The client for the API classes of kubernetes-asyncio, such as `CoreV1Api(client)`.

    Its requests use the transport's credentials, TLS, proxy, retries, metrics, traces and fence. Results of
    writes are added to the cache. `close` closes nothing: the transport belongs to the manager.
    """

    def __init__(self, transport: Transport, cache: Cache, *, field_manager: str) -> None:
        # Do not call the parent's constructor, which opens a session and reads the machine's authorities.
        self.configuration = Configuration()
        self.cookie = ""
        self.configuration.host = ""
        self.client_side_validation = self.configuration.client_side_validation
        self.pool_threads = 1
        self.default_headers: dict[str, str] = {}
        self._transport = transport
        self._cache = cache
        self._field_manager = field_manager

    async def close(self) -> None:
        """Do nothing: the transport owns the connections."""

    async def request(
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: Any = None,
        post_params: Any = None,
        body: Any = None,
        _preload_content: bool = True,
        _request_timeout: Any = None,
    ) -> Any:
        """Send a request; with `_preload_content=False`, the caller reads the answer piece by piece.

        Raises:
            ApiException: the server answered with an error, which is also an `ApiError` of the library.
            TransportError, Fenced: as for every request of the manager.
        """
        given = {name.lower(): value for name, value in (headers or {}).items()}
        accept, content_type = given.get("accept"), given.get("content-type", "application/json")
        _check(method, given, post_params)
        if (connection := _connects(url)) is not None:
            opening = self._connect(url, connection[1], query_params or ())
            return await _collected(opening) if _preload_content else opening
        query = {name: _text(value) for name, value in query_params or ()}
        try:
            if method == "GET" and not _preload_content:
                idle = _seconds(_request_timeout, idle=True) or IDLE_TIMEOUT
                async with AsyncExitStack() as stack:
                    opening = self._transport.stream(
                        url, query=query, accept=accept or "*/*", idle_timeout=idle
                    )
                    return _Answer(await stack.enter_async_context(opening), stack.pop_all())
            if method in {"POST", "PUT", "PATCH"} and "/proxy" not in url:
                query.setdefault("fieldManager", self._field_manager)
            answer = _Answer()
            answer.data = await self._transport.request(
                method,
                url,
                query=query,
                body=_encoded(body, content_type),
                content_type=content_type,
                accept=accept or "application/json",
                deadline=_seconds(_request_timeout),
                longest=LONGEST_LIST if method == "GET" else LONGEST,
                name=str(fields(body, "metadata").get("name") or "") if method == "POST" else "",
                head=answer.begin,
            )
        except ApiError as error:
            raise _as_api_exception(error) from error
        if method != "GET":
            self._observe(method, url, query, body, answer.data)
        return answer

    def _observe(self, method: str, path: str, query: Mapping[str, str], body: Any, raw: bytes) -> None:
        options = body if isinstance(body, dict) else {}
        if "dryRun" in query or (method == "DELETE" and options.get("dryRun")):
            return
        if method != "DELETE":
            gvk = _identity(raw)
            if gvk is not None and any(each.spec.gvk == gvk for each in self._cache.informers):
                kind = Unstructured.of(gvk.api_version, gvk.kind)
                self._cache.observe_write(kind, raw, before=_replaced(method, options))
        elif (found := _named(path)) is not None:
            key = ObjectKey(unquote(found["namespace"] or ""), unquote(found["name"]))
            wanted = (unquote(found["group"] or ""), found["version"], found["plural"])
            for informer in self._cache.informers:
                spec = informer.spec
                if (spec.gvk.group, spec.gvk.version, spec.plural) == wanted:
                    informer.observe_delete(key, fields(options, "preconditions").get("uid"), raw)

    @asynccontextmanager
    async def _connect(self, path: str, what: str, query: Iterable[tuple[str, Any]]) -> AsyncIterator[Any]:
        pairs = [
            (name, _text(each))
            for name, value in query
            for each in (value if isinstance(value, list | tuple) else [value])
        ]
        protocols = PORT_CHANNELS if what == "portforward" else PROCESS_CHANNELS
        async with AsyncExitStack() as stack:
            opening = self._transport.websocket(path, query=pairs, protocols=protocols)
            try:
                socket = await stack.enter_async_context(opening)
            except ApiError as error:
                raise _as_api_exception(error) from error
            yield socket


class _Answer:
    """An answer with the part of aiohttp's interface that kubernetes-asyncio and its users need.

    `data` has the bytes not yet returned; for a stream, those that have arrived. `content` is this answer.
    """

    reason = ""

    def __init__(
        self, chunks: AsyncIterator[bytes] | None = None, stack: AsyncExitStack | None = None
    ) -> None:
        self.status = int(HTTPStatus.OK)
        self.data = b""
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._chunks = chunks  # None at the end
        self._stack = stack or AsyncExitStack()
        self._reading = False
        self._closing: asyncio.Task[None] | None = None

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = CIMultiDict(headers)

    def getheaders(self) -> CIMultiDict[str]:
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        return self.headers.get(name, default)

    @property
    def content(self) -> Self:
        return self

    async def readline(self) -> bytes:
        """Return the next line with its line end; empty at the end.

        Raises:
            TimeoutError: no data arrived for too long.
            ProtocolError: the line is longer than `LONGEST_LINE`.
        """
        while (end := self.data.find(b"\n") + 1) == 0:
            if len(self.data) > LONGEST_LINE:
                raise ProtocolError(f"a line is longer than {LONGEST_LINE} bytes")
            if not await self._more():
                end = len(self.data)
                break
        line, self.data = self.data[:end], self.data[end:]
        return line

    async def read(self) -> bytes:
        found = bytearray()
        while self.data or await self._more():
            found += self.data
            self.data = b""
            if len(found) > LONGEST:
                raise ProtocolError(f"the answer is longer than {LONGEST} bytes")
        return bytes(found)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self.readline():
            yield line

    def close(self) -> None:
        """Close the connection; if a read is running, the connection closes after the read."""
        self._chunks, self.data = None, b""
        if self._closing is None and not self._reading:
            self._closing = asyncio.get_running_loop().create_task(self._stack.aclose())

    release = close

    async def _more(self) -> bool:
        chunks = self._chunks
        if chunks is None:
            return False
        self._reading = True
        try:
            part = await anext(chunks, None)
        except DeadlineExceeded as error:
            raise TimeoutError(str(error)) from error  # the package's watches then reconnect
        finally:
            self._reading = False
            if self._chunks is None:
                self.close()  # the call during the read could not close the connection
        if part is None or self._chunks is None:
            self._chunks = None
            await self._stack.aclose()
            return False
        self.data += part
        return True


def _identity(raw: bytes) -> GroupVersionKind | None:
    try:
        found = fields(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None  # for example from a proxy
    return GroupVersionKind.from_api_version(str(found.get("apiVersion")), str(found.get("kind")))


def _replaced(method: str, body: Mapping[str, Any]) -> int | None:
    """Return the resourceVersion that a write replaces: 0 for a create, None if the body has none."""
    if method == "POST":
        return 0
    version = str(fields(body, "metadata").get("resourceVersion") or "")
    return int(version) or None if version.isascii() and version.isdecimal() else None


def _check(method: str, headers: Mapping[str, str], post_params: Any) -> None:
    if method not in {"GET", "POST", "PUT", "PATCH", "DELETE"}:
        raise ApiValueError(f"the manager's transport sends no {method} requests")
    if post_params:
        raise ApiValueError("the manager's transport sends no forms")
    for name in headers.keys() - _HEADERS:
        raise ApiValueError(f"the manager's transport sends no header {name}: it uses its own credentials")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        raise ApiValueError(f"a parameter with several values: {value!r}")
    return str(value)


def _encoded(body: Any, content_type: str) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str) and "json" not in content_type:
        return body.encode()
    return orjson.dumps(body)


def _seconds(timeout: Any, *, idle: bool = False) -> float | None:
    """Return the seconds for a request or, with `idle`, for a stream without data; None means the default.

    `timeout` has a form of kubernetes-asyncio: a number, a pair (connect, read), or aiohttp's ClientTimeout.
    """
    if isinstance(timeout, tuple):
        seconds: float | None = timeout[1] if idle else sum(each or 0.0 for each in timeout)
    elif timeout is None or isinstance(timeout, int | float):
        seconds = timeout
    else:
        seconds = (idle and timeout.sock_read) or timeout.total
    return seconds or None


async def _collected(opening: AbstractAsyncContextManager[Any]) -> _Answer:
    answer, printed = _Answer(), bytearray()  # the output may arrive a byte at a time
    async with opening as socket:
        while (message := await socket.receive_message()) is not None:
            if message[:1] and message[0] in {_STDOUT, _STDERR}:
                printed += message[1:]
            if len(printed) > LONGEST_OUTPUT:
                raise ProtocolError(f"the command printed more than {LONGEST_OUTPUT} bytes")
    answer.begin(HTTPStatus.OK, {})
    answer.data = bytes(printed)
    return answer


class _Answered(ApiException):
    def __str__(self) -> str:
        return Exception.__str__(self)


@cache
def _both(kind: Any) -> Any:
    return type(kind.__name__, (kind, _Answered), {"__module__": kind.__module__})


def _as_api_exception(error: ApiError) -> ApiError:
    """Return a copy of the error that is also an ApiException of kubernetes-asyncio."""
    kind: Any = type(error)
    kind = _both(kind)
    found: ApiError = kind.__new__(kind, *error.args)
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": error.status}
    said = {"message": error.message, "reason": error.reason, "details": dict(error.details)}
    vars(found).update(
        vars(error),
        body=orjson.dumps({**status, **said}),
        headers=CIMultiDict({} if error.retry_after is None else {"Retry-After": f"{error.retry_after:g}"}),
    )
    return found
