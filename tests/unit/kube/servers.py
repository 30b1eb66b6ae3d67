"""Local HTTP servers for tests with real connections: keep-alive, resets, incomplete responses.

`LocalServer` calls `answer` for each request, appends the request to `requests`, and counts `connections`.
`ScriptedServer` sends exactly the bytes that a test gives:

    async with ScriptedServer() as script, wire_to(script.url) as wire:
        script.answers = [OK, None]
        ...exchange with the wire...
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import trustme
from yarl import URL

from manager.kube.config import ClusterConfig
from manager.kube.credentials import Credentials, FixedCredentials, Obtained
from manager.kube.http_wire import CONNECTIONS, HttpWire
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.kube.wire import LONGEST, WireRequest


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    client: str | None
    """The common name of the client's certificate."""


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    claimed_length: int | None = None
    """Content-Length to send; None for the real length of the body."""


class LocalServer:
    def __init__(
        self,
        authority: trustme.CA | None = None,
        *,
        identity: str = "127.0.0.1",
        requires_certificate: bool = False,
    ) -> None:
        """Serve HTTPS with a certificate for `identity` by `authority`, or HTTP if `authority` is None."""
        self.requests: list[Request] = []
        self.connections = 0
        self.errors: list[Exception] = []
        self.answer: Callable[[Request], Answer | asyncio.Future[Any]] = lambda _: Answer()
        self.context: ssl.SSLContext | None = None
        if authority is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(identity).configure_cert(self.context)
        if requires_certificate:
            authority.configure_trust(self.context)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{'http' if self.context is None else 'https'}://127.0.0.1:{self.port}"

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` is true; check it after each request and each closed connection."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task, writer in list(self._tasks.items()):
            task.cancel()
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._changed.set()

    async def all_closed(self) -> None:
        """Wait until every connection is closed."""
        await self.until(lambda: not self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await self._converse(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is going down
        except OSError as error:
            self.errors.append(error)
            self._changed.set()
        finally:
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("Content-Length", "0")))
            certificate: Any = writer.get_extra_info("peercert") or {}
            names = dict(pair for part in certificate.get("subject", ()) for pair in part)
            request = Request(method, target, headers, body, names.get("commonName"))
            self.requests.append(request)
            self._changed.set()
            answer = self.answer(request)
            if isinstance(answer, asyncio.Future):
                answer = await answer
            length = len(answer.body) if answer.claimed_length is None else answer.claimed_length
            lines = [f"HTTP/1.1 {answer.status} Whatever", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
            await writer.drain()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


async def next_request(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read a request's head, as a step of `ScriptedServer.play`."""
    await reader.readuntil(b"\r\n\r\n")


async def end_of_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the sending side and read until the client closes, as a step of `ScriptedServer.play`."""
    if writer.can_write_eof():
        writer.write_eof()
    await reader.read(-1)


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Send nothing and read until the client closes, as a step of `ScriptedServer.play`."""
    await reader.read(-1)


class ScriptedServer(LocalServer):
    """HTTP server that answers each request with the next item of `answers`; None closes the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes | None] = []
        self.serve: Serve = self.take_answers

    def play(self, *steps: bytes | asyncio.Event | Serve) -> None:
        """After the first request of a connection, send bytes, await events and call functions in order."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await next_request(reader, writer)
            for step in steps:
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif isinstance(step, asyncio.Event):
                    await step.wait()
                else:
                    await step(reader, writer)

        self.serve = serve

    async def take_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            answer = self.answers.pop(0) if self.answers else OK
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.serve(reader, writer)


def config_for(url: str, authority: trustme.CA | None = None, **further: Any) -> ClusterConfig:
    """Return a configuration that trusts `authority`, or one for plain HTTP if `authority` is None."""
    tls = None
    if authority is not None:
        tls = Tls(TlsFiles(authorities=Pem("ca", data=authority.cert_pem.bytes())))
    usual = {"source": "test", "credentials": FixedCredentials("Bearer secret"), "tls": tls}
    return ClusterConfig(server=URL(url), **usual | further)


@asynccontextmanager
async def wire_to(
    url: str, authority: trustme.CA | None = None, *, connections: int = CONNECTIONS, **further: Any
) -> AsyncIterator[HttpWire]:
    """Open an HTTP wire with the configuration that `config_for` returns for these arguments."""
    wire = HttpWire(config_for(url, authority, **further), connections=connections)
    try:
        yield wire
    finally:
        await wire.aclose()


class IssuedCertificates(Credentials):
    """Credentials that are only a client certificate, with the names "1", "2" and so on."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__()
        self._authority = authority
        self.count = 0

    async def obtain(self) -> Obtained:
        self.count += 1
        issued = self._authority.issue_cert("client.test", common_name=f"{self.count}")
        pems = issued.cert_chain_pems[0], issued.private_key_pem
        certificate, key = (Pem("issued", data=each.bytes()) for each in pems)
        return Obtained(None, certificate=(certificate, key))


GET = WireRequest("GET", "/api?a=b", {})


async def fetch(wire: HttpWire, request: WireRequest = GET) -> tuple[int, bytes]:
    """Send a request; return the status and the body of the response."""
    status, _, body = await wire.fetch(request, LONGEST)
    return status, body
