"""A running store: its storage, its services, and its metrics page."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

from petstore.address import BindAddress
from petstore.metrics import ServerMetrics
from petstore.observing import ObservingInterceptor
from petstore.proto import petstore_pb2 as pb
from petstore.proto.petstore_pb2_grpc import add_PetStoreServicer_to_server
from petstore.sampler import Sampler
from petstore.service import PetStoreService
from petstore.storage import Storage
from petstore.tls import ServerTls, TlsFiles

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["PetStore"].full_name

_OPTIONS: Final = (
    # No other process may share the port.
    ("grpc.so_reuseport", 0),
    ("grpc.max_connection_idle_ms", 300_000),
    # A connection ends after this time, so that clients must present their certificate again.
    ("grpc.max_connection_age_ms", 300_000),
    ("grpc.max_connection_age_grace_ms", 300_000),
    # Pings detect clients that left without closing the connection.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients may send pings on idle connections every ten seconds.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)

_GRPCS_LOG: Final = logging.getLogger("grpc._cython.cygrpc")


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for gRPC's log records (with tracebacks) of clients that disconnected early; else True."""
    return record.exc_info is None or type(record.exc_info[1]).__name__ != "ExecuteBatchError"


class CannotListen(Exception):
    """An error: the server cannot listen on its address."""

    def __init__(self, address: BindAddress, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a server."""

    bind_address: BindAddress

    metrics_bind_address: BindAddress | None = None
    """The address of the metrics page; None for no page."""

    data: Path | None = None
    """The SQLite file; None for a store in memory, which is lost when the process ends."""

    ignore_idempotency_keys: bool = False
    """Whether the store supports only the published contract, without idempotency keys."""

    allow_change_sampler: bool = False
    """Whether clients may change the logging of calls."""

    tls: TlsFiles = field(default_factory=TlsFiles)
    """Files for TLS, or none for no encryption; a `ca_file` requires client certificates from it."""

    calls: int = 2048
    """The maximum number of concurrent calls; gRPC refuses more (RESOURCE_EXHAUSTED)."""

    message_bytes: int = 256 * 1024
    """The maximum size of a request in bytes; gRPC refuses longer requests (RESOURCE_EXHAUSTED)."""

    grace: float = 10.0
    """The seconds that running calls have to end when the server stops; then they are cancelled."""


class PetStoreServer:
    """A store that serves calls while it is entered as a context manager.

    Entering raises TlsUnusable, DataUnusable or CannotListen. Leaving refuses new calls, waits up to `grace`
    seconds for running calls, and then closes the data file.
    """

    def __init__(
        self, options: ServerOptions, *, interceptors: tuple[grpc.aio.ServerInterceptor, ...] = ()
    ) -> None:
        self._options = options
        self._interceptors = interceptors
        self._stack = AsyncExitStack()
        self.metrics = ServerMetrics()
        self.address = options.bind_address
        """The server's address; in the entered server, with the actual port."""
        self.metrics_address = options.metrics_bind_address
        """The address of the metrics page; in the entered server, with the actual port."""

    async def __aenter__(self) -> Self:
        tls = await asyncio.to_thread(ServerTls.of_server, self._options.tls)
        async with AsyncExitStack() as stack:
            _GRPCS_LOG.addFilter(_is_news)  # all servers of the process share the logger
            storage = await stack.enter_async_context(Storage(self._options.data))
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
            server, thread = await asyncio.to_thread(
                start_http_server, address.port, address.interface, registry=self.metrics.registry
            )
        except OSError as error:
            raise CannotListen(address, error.strerror or str(error)) from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        stack.push_async_callback(asyncio.to_thread, stop)
        self.metrics_address = BindAddress(address.host, server.server_port)

    async def _serve_calls(self, stack: AsyncExitStack, storage: Storage, tls: ServerTls | None) -> None:
        options, sampler, address = self._options, Sampler(), self.address
        server = grpc.aio.server(
            interceptors=(ObservingInterceptor(self.metrics, sampler), *self._interceptors),
            options=(*_OPTIONS, ("grpc.max_receive_message_length", options.message_bytes)),
            maximum_concurrent_rpcs=options.calls,
        )
        service = PetStoreService(
            storage,
            sampler if options.allow_change_sampler else None,
            ignore_idempotency_keys=options.ignore_idempotency_keys,
        )
        add_PetStoreServicer_to_server(service, server)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection((_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        # gRPC logs a line for each address on which it cannot listen.
        if reason := await asyncio.to_thread(address.why_not):
            raise CannotListen(address, reason)
        try:
            port = (
                server.add_insecure_port(address.target)
                if tls is None
                else server.add_secure_port(address.target, tls.credentials())
            )
        except RuntimeError as error:
            raise CannotListen(address, str(error)) from error
        self.address = BindAddress(address.host, port)
        for name in ("", _SERVICE):
            await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        await server.start()

        async def stop() -> None:
            # Clients that watch the health switch to another server before calls are refused.
            await checks.enter_graceful_shutdown()
            await server.stop(options.grace)

        stack.push_async_callback(stop)
