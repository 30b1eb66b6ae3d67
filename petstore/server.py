"""A running store: its storage, its services, and the page with its metrics."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from petstore.address import BindAddress
from petstore.front import open_front
from petstore.limits import Limits
from petstore.metrics import ServerMetrics
from petstore.metrics_page import serve_metrics
from petstore.observing import ObservingInterceptor
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import add_PetStoreServicer_to_server
from petstore.sampler import Sampler
from petstore.service import PetStoreService
from petstore.storage import Storage
from petstore.tls import ServerTls, TlsFiles

__all__ = ["CannotListen", "PetStoreServer", "ServerOptions"]

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["PetStore"].full_name


_GRPCS_LOG: Final = logging.getLogger("grpc._cython.cygrpc")


def _is_news(record: logging.LogRecord) -> bool:
    """Not if a client has gone before it took its answer: gRPC would write a traceback for each such call."""
    return record.exc_info is None or type(record.exc_info[1]).__name__ != "ExecuteBatchError"


class CannotListen(Exception):
    """An address cannot be listened on."""

    def __init__(self, address: BindAddress, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server is made of."""

    bind_address: BindAddress

    metrics_bind_address: BindAddress | None = None
    """None: no metrics page."""

    data: Path | None = None
    """The SQLite file; None: in memory, gone with the process."""

    ignore_idempotency_keys: bool = False
    """Act like a store that knows the published contract only."""

    allow_change_sampler: bool = False
    """Let whoever can call change what is logged of calls."""

    tls: TlsFiles = field(default_factory=TlsFiles)
    """No file: not encrypted. With a `ca_file`, only clients are served whose certificate it has signed."""

    limits: Limits = field(default_factory=Limits)

    grace: float = 10.0
    """Seconds that running calls get when the server stops; then they are cancelled."""


class PetStoreServer:
    """A store that serves while it is entered.

    Entering raises TlsUnusable, DataUnusable or CannotListen. Leaving takes no more calls, gives the running
    ones the grace, and closes the file.
    """

    def __init__(
        self, options: ServerOptions, *, interceptors: tuple[grpc.aio.ServerInterceptor, ...] = ()
    ) -> None:
        """`interceptors` come behind the one that measures."""
        self._options = options
        self._interceptors = interceptors
        self._stack = AsyncExitStack()
        self.metrics = ServerMetrics()
        self.address = options.bind_address
        """Where it listens; once entered, with the port that it really has."""
        self.metrics_address = options.metrics_bind_address
        """Likewise."""

    async def __aenter__(self) -> Self:
        tls = await asyncio.to_thread(ServerTls.of_server, self._options.tls)
        async with AsyncExitStack() as stack:
            _GRPCS_LOG.addFilter(_is_news)  # which is there once, however many servers there are
            storage = await stack.enter_async_context(Storage(self._options.data, self._options.limits))
            await self._serve_metrics(stack)
            await self._serve_calls(stack, storage, tls)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve_metrics(self, stack: AsyncExitStack) -> None:
        address = self.metrics_address
        if address is None:
            return
        try:
            port = await stack.enter_async_context(serve_metrics(address, self.metrics.registry))
        except OSError as error:
            raise CannotListen(address, _reason(error)) from error
        self.metrics_address = BindAddress(address.host, port)

    async def _serve_calls(self, stack: AsyncExitStack, storage: Storage, tls: ServerTls | None) -> None:
        sampler, limits = Sampler(), self._options.limits
        address = self.address
        try:
            sockets = await asyncio.to_thread(address.listen)
        except OSError as error:
            raise CannotListen(address, _reason(error)) from error
        for each in sockets:
            stack.enter_context(each)
        try:
            front = await stack.enter_async_context(open_front(limits, tls))
        except OSError as error:
            raise CannotListen(address, f"TMPDIR has no room for a socket: {_reason(error)}") from error
        self.address = BindAddress(address.host, sockets[0].getsockname()[1])
        server = grpc.aio.server(
            interceptors=(
                ObservingInterceptor(self.metrics, sampler, limits, front.client_of),
                *self._interceptors,
            ),
            options=limits.channel_arguments(),
        )
        service = PetStoreService(
            storage,
            sampler if self._options.allow_change_sampler else None,
            ignore_idempotency_keys=self._options.ignore_idempotency_keys,
        )
        add_PetStoreServicer_to_server(service, server)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection((_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            server.add_insecure_port(front.target)
        except RuntimeError as error:
            raise CannotListen(address, f"TMPDIR has no room for a socket: {front.target}") from error
        for name in ("", _SERVICE):
            await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        await server.start()

        async def stop() -> None:
            front.stop_listening()
            # Who watches the health goes elsewhere before calls are turned away.
            await checks.enter_graceful_shutdown()
            await server.stop(self._options.grace)

        stack.push_async_callback(stop)
        await front.listen(sockets)


def _reason(error: OSError) -> str:
    # `socket.create_server` says more, and the same again.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
