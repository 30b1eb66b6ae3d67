"""Commands in containers, their output, and connections to pods' ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from urllib.parse import quote

import orjson

from manager.api import ObjectKey, Resource
from manager.kube.decoding import json_object
from manager.kube.errors import (
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    Forbidden,
    ProtocolError,
    status_error,
)
from manager.kube.transport import DEADLINE, Transport
from manager.kube.wire import WebSocket

PROCESS_CHANNELS = ("v5.channel.k8s.io",)
"""The subprotocol of a process: stdin (with its end), stdout and stderr share a WebSocket."""

PORT_CHANNELS = ("v4.channel.k8s.io",)
"""The subprotocol of a port: its data and the node's errors share a WebSocket."""

LONGEST_OUTPUT = 1024 * 1024
"""Bytes that a command may print, unless the caller sets another limit."""

LONGEST_LINE = 256 * 1024
"""The maximum length of a log line in bytes; a longer line is split."""

IDLE_TIMEOUT = 300.0
"""Seconds without data after which the connection of a log or another stream counts as broken."""

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PIECE = 32 * 1024
"""Bytes that are sent in one message."""
_PORT_PREFIX = 2
"""Bytes of the port's number, with which each channel of a port-forward begins."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command in a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class ExecOptions(TypedDict, total=False):
    """The options of `PodStreams.exec`."""

    container: str
    """The container's name; required for a pod with several containers."""
    stdin: bytes | None
    """All input of the command; None for no input."""
    timeout: float
    """The time limit of the command in seconds."""
    limit: int
    """The maximum number of printed bytes."""


class LogOptions(TypedDict, total=False):
    """The options of `PodStreams.logs`."""

    container: str
    """The container's name; required for a pod with several containers."""
    follow: bool
    """Whether to wait for further lines until the container ends."""
    previous: bool
    """Whether to read the log of the container's previous run."""
    tail_lines: int | None
    """The number of existing lines to return, the last ones; None for all."""
    since: datetime | None
    """The time of the first line, in whole seconds."""
    timestamps: bool
    """Whether each line begins with its time."""
    idle_timeout: float
    """Seconds without data after which the connection counts as broken."""


class Output(NamedTuple):
    """A piece of a process's output, of any size."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class _Channels:
    """The numbered channels in one WebSocket; `name` identifies the stream in errors."""

    def __init__(self, socket: WebSocket, name: str) -> None:
        self._socket = socket
        self._name = name

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            for start in range(0, len(data), _PIECE):
                await self._socket.send_bytes(bytes([channel]) + data[start : start + _PIECE])
        except OSError as error:
            raise ConnectionLost(f"{self._name}: the connection broke: {error}") from error

    async def _receive(self) -> tuple[int, bytes] | None:
        while (message := await self._socket.receive_message()) is not None:
            if len(message) > 1:
                return message[0], message[1:]
        return None


class ContainerStreams(_Channels):
    """stdin, stdout and stderr of a process in a container.

    Iterate to read. After the last `Output`, `exit_code` is set, or the node's error is raised. For attach,
    the node always reports the exit code 0.
    """

    exit_code: int | None = None
    _status: bytes | None = None

    async def write(self, data: bytes) -> None:
        """Write to stdin; waits while the process reads slowly. Raises ConnectionLost and Fenced."""
        await self._send(_STDIN, data)

    async def close_stdin(self) -> None:
        """Close stdin, so that the process reads its end."""
        await self._send(_CLOSE, bytes([_STDIN]))

    def __aiter__(self) -> ContainerStreams:
        return self

    async def __anext__(self) -> Output:
        while (message := await self._receive()) is not None:
            channel, data = message
            if channel == _STDOUT:
                return Output("stdout", data)
            if channel == _STDERR:
                return Output("stderr", data)
            if channel == _ERROR:
                self._status = data
        if self._status is None:
            raise ConnectionLost(f"{self._name}: the connection broke before the process ended")
        self.exit_code = _exit_code(self._status, self._name)
        raise StopAsyncIteration


class PortConnection(_Channels):
    """A connection to a port of a pod. Iterate to read until the program in the pod stops sending."""

    def __init__(self, socket: WebSocket, name: str) -> None:
        super().__init__(socket, name)
        self._begun = set[int]()

    async def write(self, data: bytes) -> None:
        """Send data; waits while the pod reads slowly. Raises ConnectionLost and Fenced."""
        await self._send(0, data)

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end. Raises ConnectionLost with the node's message."""
        while (message := await self._receive()) is not None:
            channel, data = message
            rest = data if channel in self._begun else data[_PORT_PREFIX:]
            self._begun.add(channel)
            if rest and channel:
                raise ConnectionLost(f"{self._name}: {rest.decode(errors='replace').strip()}")
            if rest:
                return rest
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data


class PodStreams:
    """Streams to and from a pod, which is given by its object or its key.

    All methods except `logs` count as writes: their streams end when the manager loses its Lease.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def exec(
        self, pod: Resource | ObjectKey, command: Sequence[str], **options: Unpack[ExecOptions]
    ) -> ExecResult:
        """Run a command in a container; return its output and its exit code, even if the command failed.

        By default, the limits are 30 seconds and 1 MiB of output.

        Raises:
            ApiError: the pod, container or program does not exist, or the request was refused.
            DeadlineExceeded: the command has not ended in time; it may still be running.
            ProtocolError: the command printed more than `limit` bytes.
            ConnectionLost: the connection broke; the command may have taken effect.
            Fenced: the manager has lost the right to write.
        """
        if isinstance(command, str):
            raise TypeError(f"a command is a list of its words, not {command!r}")
        stdin, timeout = options.get("stdin"), options.get("timeout", DEADLINE)
        query = _query(options.get("container", ""), stdin=stdin is not None)
        query += [("command", each) for each in command]
        limit = options.get("limit", LONGEST_OUTPUT)
        patience = asyncio.timeout(timeout)
        try:
            async with patience, self._opened("exec", pod, "exec", query) as (socket, name):
                process = ContainerStreams(socket, name)
                output = await _communicate(process, stdin, limit, name)
        except TimeoutError:
            if not patience.expired():
                raise
            raise DeadlineExceeded(f"exec of pod {_key(pod)}: has not ended within {timeout:g} s") from None
        assert process.exit_code is not None
        return ExecResult(process.exit_code, bytes(output["stdout"]), bytes(output["stderr"]))

    @asynccontextmanager
    async def attach(
        self, pod: Resource | ObjectKey, *, container: str = "", stdin: bool = False
    ) -> AsyncIterator[ContainerStreams]:
        """Attach to a container's running process: read its new output and, with `stdin`, write its input.

        Raises:
            ApiError: the server or the node refuses the request.
            ConnectionLost: the connection could not be opened, or broke.
            Fenced: the manager has lost the right to write.
        """
        query = _query(container, stdin=stdin)
        async with self._opened("attach", pod, "attach", query) as opened:
            yield ContainerStreams(*opened)

    @asynccontextmanager
    async def port_forward(self, pod: Resource | ObjectKey, port: int) -> AsyncIterator[PortConnection]:
        """Connect to a TCP port of a pod through the API server.

        Raises:
            ApiError: the server refuses the connection.
            ConnectionLost: the connection broke, or (in a read) the node reported an error.
            Fenced: the manager has lost the right to write.
        """
        query = [("ports", str(port))]
        async with self._opened(f"port {port}", pod, "portforward", query, PORT_CHANNELS) as opened:
            yield PortConnection(*opened)

    async def logs(
        self, pod: Resource | ObjectKey, **options: Unpack[LogOptions]
    ) -> AsyncGenerator[str, None]:
        """Read the lines of a container's log; with `follow`, also later lines until the container ends.

        If the connection breaks, a partial line is dropped. A line of more than `LONGEST_LINE` bytes is
        split. Without data for 300 seconds (or `idle_timeout`), the connection counts as broken.

        Raises:
            ApiError: there is no such pod or container, or it has no log yet.
            ConnectionLost, DeadlineExceeded: the connection broke, or no data arrived for `idle_timeout`.
        """
        query = {name: "true" for name in ("follow", "previous", "timestamps") if options.get(name)}
        if container := options.get("container"):
            query["container"] = container
        if (tail_lines := options.get("tail_lines")) is not None:
            query["tailLines"] = str(tail_lines)
        if since := options.get("since"):
            query["sinceTime"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path, idle_timeout = _path(pod, "log"), options.get("idle_timeout", IDLE_TIMEOUT)
        async with (
            self._transport.stream(path, query=query, accept="*/*", idle_timeout=idle_timeout) as chunks,
            aclosing(split_lines(chunks, LONGEST_LINE)) as lines,
        ):
            async for line in lines:
                yield line.decode(errors="replace")

    @asynccontextmanager
    async def _opened(
        self,
        what: str,
        pod: Resource | ObjectKey,
        subresource: str,
        query: Sequence[tuple[str, str]],
        protocols: Sequence[str] = PROCESS_CHANNELS,
    ) -> AsyncIterator[tuple[WebSocket, str]]:
        async with AsyncExitStack() as stack:
            opening = self._transport.websocket(_path(pod, subresource), query=query, protocols=protocols)
            try:
                socket = await stack.enter_async_context(opening)
            except Forbidden as error:
                if error.message.endswith(" is forbidden: "):
                    # The API server does not name the missing right to create.
                    error.name_right("create", f"pods/{subresource}")
                raise
            yield socket, f"{what} of pod {_key(pod)}"


async def split_lines(chunks: AsyncIterator[bytes], longest: int) -> AsyncGenerator[bytes, None]:
    """Yield the lines without their line ends; at the end, also an unfinished line.

    If the stream fails, an unfinished line is dropped. A line of more than `longest` bytes is split.
    """
    begun = b""
    async for chunk in chunks:
        *whole, begun = (begun + chunk).split(b"\n")
        for line in whole:
            for start in range(0, len(line) or 1, longest):
                yield line[start : start + longest]
        while len(begun) > longest:
            yield begun[:longest]
            begun = begun[longest:]
    if begun:
        yield begun


async def _communicate(
    process: ContainerStreams, stdin: bytes | None, limit: int, name: str
) -> dict[str, bytearray]:
    output, size = {"stdout": bytearray(), "stderr": bytearray()}, 0
    feeding = None if stdin is None else asyncio.create_task(_feed(process, stdin), name=name)
    try:
        async for stream, data in process:
            size += len(data)
            if size > limit:
                raise ProtocolError(f"{name}: it printed more than {limit} bytes")
            output[stream] += data
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait([feeding])
            if not feeding.cancelled() and isinstance(error := feeding.exception(), Fenced):
                raise error
    return output


async def _feed(process: ContainerStreams, stdin: bytes) -> None:
    await process.write(stdin)
    await process.close_stdin()


def _query(container: str, *, stdin: bool) -> list[tuple[str, str]]:
    streams = ("stdin", "stdout", "stderr") if stdin else ("stdout", "stderr")
    return [*([("container", container)] if container else []), *((name, "true") for name in streams)]


def _key(pod: Resource | ObjectKey) -> ObjectKey:
    return pod.key if isinstance(pod, Resource) else pod


def _path(pod: Resource | ObjectKey, subresource: str) -> str:
    namespace, name = (quote(each, safe="") for each in _key(pod))
    if not namespace or not name:
        raise ValueError(f"a pod has a namespace and a name, not {_key(pod)}")
    return f"/api/v1/namespaces/{namespace}/pods/{name}/{subresource}"


def _exit_code(status: bytes, name: str) -> int:
    found: dict[str, Any] = json_object(status, f"the end of {name}")
    if found.get("status") == "Success":
        return 0
    details = found.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if found.get("reason") == "NonZeroExitCode" and isinstance(causes, list):
        for cause in causes:
            if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
                text = str(cause.get("message"))
                if text.isascii() and text.isdecimal():
                    return int(text)
    raise status_error(orjson.dumps({**found, "kind": "Status"}))  # the Status has no kind
