"""A webhook of the tests' own: it converts between the versions of `Parcel`, and admits as a test says.

It shares no code with the manager, and has a thread of its own, as tests block while they talk to a server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import socket
import ssl
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web
from cryptography import x509

from tests.support.certificates import Authority
from tests.support.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Object = dict[str, Any]

ADDRESS = "127.0.0.1"
LARGEST = 64 << 20
FAREWELL = 0.1
"""Seconds that a connection which ends waits for the other side's last word."""
PATIENCE = 30.0
"""Seconds that a caller has to leave a connection that was ended."""
FRAGILE = "parcels.example.com/fragile"
"""The annotation in which v1alpha1 keeps what it has no field for."""


class VersionWebhook:
    """Serves within a `with` block, on a port that it keeps; `down` closes it for a while.

    `conversions` and `admissions` are the requests that came, in their order, `callers` the connections.
    """

    def __init__(self, folder: Path, authority: Authority | None = None) -> None:
        """`folder` takes its keys."""
        self._folder = folder
        self.authority = authority or Authority("webhooks of a test")
        self.conversions: list[Object] = []
        self.admissions: list[tuple[str, Object]] = []
        self.callers: set[tuple[str, int]] = set()
        self.convert: Callable[[Object, str], Object] = convert
        """One object to an apiVersion; raises ValueError to refuse."""
        self.admit: Callable[[str, Object], Object] = lambda _path, _request: {}
        """The response to an admission request at a path, beside its uid and `allowed`."""
        self._thread = LoopThread("version-webhook")
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None
        self._greetings: dict[asyncio.Task[None], socket.socket] = {}
        self._port = 0

    @property
    def url(self) -> str:
        """Where it is, with no path."""
        return f"https://{ADDRESS}:{self._port}"

    @property
    def ca_bundle(self) -> str:
        """As it stands in a client configuration."""
        return base64.b64encode(self.authority.pem).decode()

    def client_config(self, path: str) -> Object:
        """How an API server reaches it."""
        return {"url": f"{self.url}/{path}", "caBundle": self.ca_bundle}

    def conversion(self) -> Object:
        """The conversion part of a definition."""
        config = self.client_config("convert")
        return {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
        }

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self._thread.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._close())
        self._thread.__exit__()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Nobody listens within the block."""
        self._thread.run(self._close())
        try:
            yield
        finally:
            self._thread.run(self._open())

    def renew(self, authority: Authority) -> None:
        """Serve a certificate of another authority from now on, to new connections; the old ones stay."""
        self.authority = authority
        self._context.load_cert_chain(self._pair())

    def forget(self) -> None:
        """Count anew."""
        self.conversions.clear()
        self.admissions.clear()
        self.callers.clear()

    def converted(self) -> list[Object]:
        """The objects that were sent to be converted."""
        return [each for request in self.conversions for each in request["objects"]]

    async def _open(self) -> None:
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post("/convert", self._convert)
        app.router.add_post("/{path:.*}", self._admit)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self._pair())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await self._runner.setup()
        listener = socket.create_server((ADDRESS, self._port))
        listener.setblocking(False)
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._thread.loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        """Take a connection, with a task for its greeting: one under way when all ends must end as well."""
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # it is gone already
            return
        connection.setblocking(False)
        task = self._thread.loop.create_task(self._greet(connection))
        self._greetings[task] = connection
        task.add_done_callback(lambda done: self._greetings.pop(done, None))

    async def _greet(self, connection: socket.socket) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        with contextlib.suppress(OSError):  # it does not trust us, or has gone
            await self._thread.loop.connect_accepted_socket(
                self._runner.server, connection, ssl=self._context, ssl_shutdown_timeout=FAREWELL
            )

    async def _close(self) -> None:
        if self._runner is None:
            return
        assert self._listener is not None
        self._thread.loop.remove_reader(self._listener)
        self._listener.close()
        # Who is being greeted loses the connection, and its task ends by that. To cancel the task and close
        # the socket would leave a transport behind with its number, which the next listener then gets.
        for connection in self._greetings.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._greetings:
            await asyncio.wait(list(self._greetings))
        # At once, and not after a farewell that a server which keeps the connection may never answer. On one
        # that has begun its farewell already, this does nothing: hence the limit on that.
        assert self._runner.server is not None
        kept = []
        for handler in self._runner.server.connections:
            if handler.transport is not None:
                connection = handler.transport.get_extra_info("socket")
                # There is none any more, if the caller was the first to leave.
                if connection is not None and connection.fileno() >= 0:
                    kept.append(connection.dup())
                handler.transport.abort()
        await asyncio.gather(*map(self._until_left, kept))
        while self._runner.server.connections:  # noqa: ASYNC110 -- what is waited for is about to run
            await asyncio.sleep(0)
        await self._runner.cleanup()
        self._runner = None
        handlers = asyncio.all_tasks() - {asyncio.current_task()}
        for each in handlers:
            each.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _until_left(self, connection: socket.socket) -> None:
        """End a connection, and return once the caller has: until then it may send a request into it."""
        with connection, contextlib.suppress(OSError, TimeoutError):
            connection.setblocking(False)
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(PATIENCE):
                while await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
                    pass

    def _pair(self) -> Path:
        certificate, key = self.authority.server(x509.IPAddress(ipaddress.ip_address(ADDRESS)))
        file = self._folder / "version-webhook.pem"
        file.write_bytes(certificate + key)
        return file

    def _count(self, request: web.Request) -> None:
        assert request.transport is not None
        self.callers.add(request.transport.get_extra_info("peername"))

    async def _convert(self, request: web.Request) -> web.Response:
        self._count(request)
        review = json.loads(await request.read())
        asked = review["request"]
        self.conversions.append(asked)
        result: Object = {"status": "Success"}
        converted: list[Object] = []
        try:
            converted = [self.convert(each, asked["desiredAPIVersion"]) for each in asked["objects"]]
        except ValueError as error:
            result = {"status": "Failed", "message": str(error)}
        response = {"uid": asked["uid"], "convertedObjects": converted, "result": result}
        return self._answer(review, response)

    async def _admit(self, request: web.Request) -> web.Response:
        self._count(request)
        review = json.loads(await request.read())
        asked = review["request"]
        path = request.match_info["path"]
        self.admissions.append((path, asked))
        told = dict(self.admit(path, asked))
        if "patch" in told:
            told["patch"] = base64.b64encode(json.dumps(told["patch"]).encode()).decode()
            told["patchType"] = "JSONPatch"
        return self._answer(review, {"uid": asked["uid"], "allowed": True, **told})

    def _answer(self, review: Object, response: Object) -> web.Response:
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.json_response(body)


def convert(parcel: Object, api_version: str) -> Object:
    """A Parcel in another version: `size: 3x4` of v1alpha1 is `width: 3, height: 4` in v1beta1.

    `fragile`, which v1alpha1 does not have, rides in an annotation there. `stops` in the status is `halts`.
    """
    metadata, spec = dict(parcel["metadata"]), dict(parcel.get("spec") or {})
    annotations = dict(metadata.get("annotations") or {})
    if api_version.endswith("/v1beta1"):
        width, by, height = str(spec.pop("size", "")).partition("x")
        if by:
            spec |= {"width": int(width), "height": int(height)}
        if FRAGILE in annotations:
            spec["fragile"] = annotations.pop(FRAGILE) == "true"
    else:
        width, height = spec.pop("width", None), spec.pop("height", None)
        if width is not None and height is not None:
            spec["size"] = f"{width}x{height}"
        if "fragile" in spec:
            annotations[FRAGILE] = "true" if spec.pop("fragile") else "false"
    metadata["annotations"] = annotations
    converted = {**parcel, "apiVersion": api_version, "metadata": metadata, "spec": spec}
    if "status" in parcel:
        stops, halts = ("stops", "halts") if api_version.endswith("/v1beta1") else ("halts", "stops")
        converted["status"] = {
            halts if name == stops else name: value for name, value in parcel["status"].items()
        }
    return converted
