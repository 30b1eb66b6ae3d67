"""Sessions with containers: exec, attach and port-forward over WebSockets."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import orjson

from devcluster.api.interfaces import LogOptions, LogSource
from devcluster.errors import bad_request, internal_error
from devcluster.http_call import ApiRequest, ApiResponse, WebSocket

Object = dict[str, Any]

_V4, _V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_STREAMS = ("stdin", "stdout", "stderr")
T = TypeVar("T")


class CannotConnect(Exception):
    """Error for a process or port that accepts no connection; the message is the kubelet's."""


class Session(Protocol):
    """Connection of a client to a process or to a port."""

    async def read(self) -> bytes:
        """Return the next bytes from the client, or `b""` after the last ones."""
        ...

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Send bytes to the client; for a port, `stderr` carries an error."""
        ...


Run = Callable[[Session], Awaitable[int]]
"""A function that simulates a process and returns its exit code."""


def process_response(request: ApiRequest, run: Run) -> ApiResponse:
    """Return the response that connects a client to a process, and reports its exit code at the end.

    Raises:
        StatusError: 400, unless the request asks for a WebSocket with a supported protocol.
    """
    chosen = _protocol(request, (_V5, _V4))

    async def serve(socket: WebSocket) -> None:
        asked = {name for name in _STREAMS if request.option(name).lower() in {"true", "1"}}
        channels = _Channels(socket, discards={*_STREAMS} - asked)
        await channels.send(channels.lowest, b"")  # the kubelet reports the start in this form
        try:
            (code,) = await _run_while_listening(socket, [channels], [run(channels)])
        except CannotConnect as error:
            status = internal_error(f"Internal error occurred: {error}").to_status()
        else:
            status = _ended(code)
        await channels.send(_ERROR, orjson.dumps(status))

    return _accepted(chosen, serve)


def tunnel_response(
    request: ApiRequest, ports: Sequence[int], run: Callable[[int, Session], Awaitable[None]]
) -> ApiResponse:
    """Return the response that connects a client to ports; each port has a data and an error channel.

    Raises:
        StatusError: 400, unless the request asks for a WebSocket with a supported protocol.
    """
    chosen = _protocol(request, (_V4,))

    async def serve(socket: WebSocket) -> None:
        tunnels = [_Channels(socket, number=index) for index, _ in enumerate(ports)]
        for tunnel, port in zip(tunnels, ports, strict=True):
            for channel in (tunnel.lowest, tunnel.lowest + 1):
                await tunnel.send(channel, port.to_bytes(2, "little"))

        async def forward(tunnel: _Channels, port: int) -> None:
            try:
                await run(port, tunnel)
            except CannotConnect as error:
                await tunnel.write(str(error).encode(), stderr=True)

        await _run_while_listening(
            socket, tunnels, [forward(*each) for each in zip(tunnels, ports, strict=True)]
        )

    return _accepted(chosen, serve)


class _Channels:
    """`Session` that uses channels of a WebSocket."""

    def __init__(
        self, socket: WebSocket, *, number: int | None = None, discards: AbstractSet[str] = frozenset()
    ) -> None:
        """Set up the channels of a process or, with `number`, of the port with this index in a tunnel.

        `discards` names the streams of a process that the client does not want.
        """
        self._socket = socket
        self._stdin, self._stdout, self._stderr = _STDIN, _STDOUT, _STDERR
        if number is not None:
            self._stdin = self._stdout = 2 * number
            self._stderr = 2 * number + 1
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._ended = False
        self._discards = discards
        self.lowest = self._stdout if "stdout" not in discards else self._stderr

    async def read(self) -> bytes:
        if self._ended or "stdin" in self._discards:
            return b""
        piece = await self._pieces.get()
        self._ended = not piece
        return piece

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        if ("stderr" if stderr else "stdout") not in self._discards:
            await self.send(self._stderr if stderr else self._stdout, data)

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def take(self, message: bytes) -> None:
        """Process a message from the client; messages for other ports are ignored."""
        if message[:1] == bytes([self._stdin]) and len(message) > 1:
            await self._pieces.put(message[1:])
        elif message == bytes([_CLOSE, self._stdin]):
            await self._pieces.put(b"")


async def _run_while_listening(
    socket: WebSocket, channels: Sequence[_Channels], work: Sequence[Awaitable[T]]
) -> list[T]:
    """Run `work` and return its results; cancel it if the client disconnects."""

    async def listen() -> None:
        while (message := await socket.receive()) is not None:
            for each in channels:
                await each.take(message)

    async def do_all() -> list[T]:
        return await asyncio.gather(*work)

    listening, working = asyncio.ensure_future(listen()), asyncio.ensure_future(do_all())
    try:
        await asyncio.wait((listening, working), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionResetError("the client has gone")
        return await working
    finally:
        listening.cancel()
        working.cancel()
        await asyncio.wait((listening, working))


def _accepted(protocol: str, serve: Callable[[WebSocket], Awaitable[None]]) -> ApiResponse:
    return ApiResponse(status=101, headers={"Sec-WebSocket-Protocol": protocol}, websocket=serve)


def _protocol(request: ApiRequest, known: Sequence[str]) -> str:
    """Return the client's first WebSocket protocol that is in `known`; raise StatusError, 400, if none is."""
    headers = request.headers
    if "upgrade" not in headers.get("connection", "").lower():
        raise bad_request("Upgrade request required")
    if headers.get("upgrade", "").lower() != "websocket" or not headers.get("sec-websocket-key"):
        raise bad_request("devcluster speaks WebSocket to pods, and no SPDY")
    offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",") if each.strip()]
    for each in offered:
        if each in known:
            return each
    raise bad_request(f"requested protocol(s) are not supported: {offered}; supports {list(known)}")


def _ended(code: int) -> Object:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


EXEC, EXEC_CODE = "devcluster.local/exec", "devcluster.local/exec-code"
"""Annotations with the output and the exit code of a process, for tests without a script."""


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A simulated process with a connected client."""

    pod: Object
    container: str
    command: Sequence[str]
    """The command; empty for the container's main process, to which `attach` connects."""
    session: Session

    async def read(self) -> bytes:
        """Return the next bytes of stdin, or `b""` at its end."""
        return await self.session.read()

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Write to stdout or to stderr."""
        await self.session.write(data, stderr=stderr)


ExecScript = Callable[[Process], Awaitable[int]]
"""A script that simulates a process, and returns the exit code."""

PortScript = Callable[[Object, int, Session], Awaitable[None]]
"""A script that simulates a server on a pod's port, until the connection is closed."""


class PodSessions:
    """Processes in containers and ports of pods, simulated by functions that a test sets.

        async def run(process: Process) -> int:
            await process.write(b"hello")
            return 0

        cluster.sessions.exec = run

    Without such a function, exec prints the annotation `devcluster.local/exec` or fails, attach shows the
    container's output, and no port is open.
    """

    def __init__(self) -> None:
        self.exec: ExecScript | None = None
        self.attach: ExecScript | None = None
        self.port: PortScript | None = None
        self.logs: LogSource | None = None

    async def run(self, pod: Object, container: str, command: Sequence[str], session: Session) -> int:
        """Connect a client to a process, and return its exit code; an empty command means the main process.

        Raises:
            CannotConnect: the process does not exist.
        """
        _check_runs(pod, container)
        process = Process(pod, container, command, session)
        if command:
            return await (self.exec or _say)(process)
        await (self.attach or self._show_output)(process)
        return 0  # a kubelet does not report the end of the process to attach

    async def connect(self, pod: Object, port: int, session: Session) -> None:
        """Connect a client to a port; raise CannotConnect if no server listens there."""
        if self.port is None:
            raise CannotConnect(
                f"error forwarding port {port} to pod {pod['metadata']['uid']}, uid : failed to connect to "
                f"localhost:{port} inside namespace: dial tcp4 127.0.0.1:{port}: connect: connection refused"
            )
        await self.port(pod, port, session)

    async def _show_output(self, process: Process) -> int:
        if self.logs is not None:
            options = LogOptions(follow=True, tail_lines=0)
            lines: Any = self.logs(process.pod, process.container, options)
            async with aclosing(lines) as following:
                async for line in following:
                    await process.write(line)
        return 0


async def _say(process: Process) -> int:
    """Print the output that the pod's annotations define, and return the exit code that they define."""
    annotations = process.pod["metadata"].get("annotations") or {}
    code = str(annotations.get(EXEC_CODE, "0"))
    if EXEC in annotations:
        await process.write(str(annotations[EXEC]).encode())
        return int(code) if code.isascii() and code.isdigit() else 1
    raise CannotConnect(
        "error executing command in container: failed to exec in container: failed to start exec: "
        "OCI runtime exec failed: exec failed: unable to start container process: "
        f'exec: "{process.command[0]}": executable file not found in $PATH: unknown'
    )


def _check_runs(pod: Object, container: str) -> None:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        if each["name"] == container and "running" in (each.get("state") or {}):
            return
    raise CannotConnect(f'unable to upgrade connection: container not found ("{container}")')
