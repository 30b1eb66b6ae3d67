"""A webhook server whose conversion and admission responses the test configures.

It uses no code of the manager, and runs in its own thread, because tests block.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.certificates import Authority
from tests.support.loop_thread import LoopThread

Object = dict[str, Any]

ADDRESS = "127.0.0.1"
LARGEST = 64 << 20
FAREWELL = 0.1
"""Seconds that a closing TLS connection waits for the client's close alert."""
PATIENCE = 30.0
"""Seconds that a client has to close a connection that the server has closed."""


class WebhookServer(LoopThread):
    """Webhook server for a `with` block, on a fixed port; `down` closes the port temporarily.

    By default it converts objects by changing `apiVersion` only, and admits every object unchanged.
    `conversions` and `admissions` are the received requests in order. `callers` are the clients by path.
    """

    def __init__(self, folder: Path, authority: Authority | None = None) -> None:
        """Create a server that writes its certificate and key to `folder`."""
        super().__init__("webhook-server")
        self._folder = folder
        self.authority = authority or Authority("webhooks of a test")
        self.conversions: list[Object] = []
        self.admissions: list[tuple[str, Object]] = []
        self.callers: dict[str, set[tuple[str, int]]] = {}
        self.convert: Callable[[Object, str], Object] = lambda obj, wanted: {**obj, "apiVersion": wanted}
        """Function that converts an object to an apiVersion; it raises ValueError to refuse."""
        self.admit: Callable[[str, Object], Object] = lambda _path, _request: {}
        """Function of path and request; it returns the response, which needs neither uid nor `allowed`."""
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None
        self._greetings: dict[asyncio.Task[None], socket.socket] = {}
        self._port = 0

    @property
    def url(self) -> str:
        """Return the URL of the server without a path."""
        return f"https://{ADDRESS}:{self._port}"

    @property
    def ca_bundle(self) -> str:
        """Return the CA bundle for a webhook client configuration."""
        return base64.b64encode(self.authority.pem).decode()

    def client_config(self, path: str) -> Object:
        """Return a `clientConfig` with the URL of `path` on this server, and its CA bundle."""
        return {"url": f"{self.url}/{path}", "caBundle": self.ca_bundle}

    def conversion(self) -> Object:
        """Return the `spec.conversion` for a CRD whose objects this server converts."""
        config = self.client_config("convert")
        return {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
        }

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Close the server's port during the block; then open it again."""
        self.run(self._close())
        try:
            yield
        finally:
            self.run(self._open())

    def renew(self, authority: Authority) -> None:
        """Use a certificate of another authority for new connections; open connections continue."""
        self.authority = authority
        self._context.load_cert_chain(self._pair())

    async def _open(self) -> None:
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post("/{path:.*}", self._serve)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self._pair())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await self._runner.setup()
        listener = socket.create_server((ADDRESS, self._port))
        listener.setblocking(False)
        self._port = listener.getsockname()[1]
        self._listener = listener
        self.loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        """Accept a connection, and start a task for its TLS handshake."""
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # the client has disconnected already
            return
        connection.setblocking(False)
        task = self.loop.create_task(self._greet(connection))
        self._greetings[task] = connection
        task.add_done_callback(lambda done: self._greetings.pop(done, None))

    async def _greet(self, connection: socket.socket) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        with contextlib.suppress(OSError):  # the client does not trust the certificate, or has disconnected
            await self.loop.connect_accepted_socket(
                self._runner.server, connection, ssl=self._context, ssl_shutdown_timeout=FAREWELL
            )

    async def _close(self) -> None:
        if self._runner is None:
            return
        assert self._listener is not None
        self.loop.remove_reader(self._listener)
        self._listener.close()
        # Disconnect clients that are in a handshake, which ends the task. Cancelling the task and closing
        # the socket would leave a transport with the socket's number, which the next listener then gets.
        for connection in self._greetings.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._greetings:
            await asyncio.wait(list(self._greetings))
        # Abort, because a client with a kept connection may never answer a TLS close alert. The abort of a
        # closing connection does nothing, and FAREWELL limits its time.
        assert self._runner.server is not None
        kept = []
        for handler in self._runner.server.connections:
            if handler.transport is not None:
                connection = handler.transport.get_extra_info("socket")
                # The socket is closed if the client disconnected first.
                if connection is not None and connection.fileno() >= 0:
                    kept.append(connection.dup())
                handler.transport.abort()
        await asyncio.gather(*map(self._until_left, kept))
        while self._runner.server.connections:  # noqa: ASYNC110 -- the callbacks run soon
            await asyncio.sleep(0)
        await self._runner.cleanup()
        self._runner = None
        handlers = asyncio.all_tasks() - {asyncio.current_task()}
        for each in handlers:
            each.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _until_left(self, connection: socket.socket) -> None:
        """Shut down the sending side of a connection, and wait until the client closes it too."""
        with connection, contextlib.suppress(OSError, TimeoutError):
            connection.setblocking(False)
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(PATIENCE):
                while await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
                    pass

    def _pair(self) -> Path:
        certificate, key = self.authority.server(ADDRESS)
        file = self._folder / "webhook.pem"
        file.write_bytes(certificate + key)
        return file

    async def _serve(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        path = request.match_info["path"]
        self.callers.setdefault(path, set()).add(request.transport.get_extra_info("peername"))
        return await self.answer(path, json.loads(await request.read()))

    async def answer(self, path: str, review: Object) -> web.Response:
        asked = review["request"]
        response = {"uid": asked["uid"], **self.respond(path, asked)}
        return web.json_response(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        )

    def respond(self, path: str, asked: Object) -> Object:
        """Return the `response` field of the answer to a review, without the `uid`."""
        if "desiredAPIVersion" in asked:
            return self._converted(asked)
        self.admissions.append((path, asked))
        told = dict(self.admit(path, asked))
        if isinstance(told.get("patch"), list):  # a text is sent unchanged
            told["patch"] = base64.b64encode(json.dumps(told["patch"]).encode()).decode()
            told["patchType"] = "JSONPatch"
        return {"allowed": True, **told}

    def _converted(self, asked: Object) -> Object:
        self.conversions.append(asked)
        try:
            converted = [self.convert(each, asked["desiredAPIVersion"]) for each in asked["objects"]]
        except ValueError as error:
            return {"convertedObjects": [], "result": {"status": "Failed", "message": str(error)}}
        return {"convertedObjects": converted, "result": {"status": "Success"}}
