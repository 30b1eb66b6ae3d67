"""A test whether the API server reaches this process on 127.0.0.1, before webhooks are registered there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator

import orjson

from manager.cli.settings import Settings
from manager.kube.config import ClusterConfig
from manager.kube.errors import KubeError, ServerError, TooManyRequests, TransportError
from manager.kube.transport import Transport
from manager.util.address import BindAddress, is_loopback
from manager.util.program import Program
from manager.webhook.local_registration import may

_HOST, _PORT = "127.0.0.1", 9443
_PATIENCE = 5.0
"""Seconds for the API server to hear of a configuration and to call."""

AGAIN_EVERY = 10.0
"""Seconds between two tests of an API server that was too slow."""

_EVERY = 0.1
_NOBODY = "connection refused"
"""What the API server says of a webhook whose port is closed where it looks for it."""

_HANDSHAKE = b"\x16"
"""What TLS begins with."""

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class NotCalled(Exception):
    """Why the API server does not reach us. `passing` says that it may, once it has time to answer."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


async def reached_address(
    settings: Settings, transport: Transport, config: ClusterConfig, program: Program
) -> tuple[BindAddress, str]:
    """Return an address to listen on, and its URL for the API server: from the settings, or a free port.

    A server on this machine's loopback may still be in a container, with a loopback of its own. So this
    function tries the address with such a server, and with no other. Raises `NotCalled`, whose text says why
    the server cannot call.
    """
    if not is_loopback(config.server.host or ""):
        raise NotCalled(f"the API server {config.server} is not on this machine")
    async with _listener() as (port, called):
        try:
            if not await may(transport, "create", f"{_CONFIGURATIONS}/"):
                raise NotCalled("these credentials may not register any")
            refused = await _call(transport, f"{program.prefix}reach", port, called)
        except KubeError as error:
            passing = isinstance(error, TransportError | ServerError | TooManyRequests)
            why = f"cannot test whether the API server calls webhooks: {error}"
            raise NotCalled(why, passing=passing) from error
    if refused:
        raise NotCalled(
            f"the API server {config.server} does not reach {_HOST}:{port}; it may run in a container"
        )
    if not called.is_set():
        why = f"the API server {config.server} has called no webhook within {_PATIENCE:g} s"
        raise NotCalled(why, passing=True)
    given = settings.webhook_bind_address
    if given is not None and given.port and settings.is_given(Settings.webhook_bind_address):
        everywhere = given.host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        return given, f"https://{BindAddress(_HOST, given.port) if everywhere else given}"
    address = BindAddress(_HOST, _PORT if _is_free(_PORT) else port)
    return address, f"https://{address}"


@contextlib.asynccontextmanager
async def _listener() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Listen; yield the port, and an event that is set when a client begins a TLS connection.

    It avoids the usual port: another API server may be calling that, for a manager that ran before.
    """
    called = asyncio.Event()

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if await reader.read(1) == _HANDSHAKE:
                called.set()
        writer.close()

    server = await asyncio.start_server(look, _HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], called


def _is_free(port: int) -> bool:
    """Return whether a server can listen on the address."""
    try:
        socket.create_server((_HOST, port)).close()
    except OSError:
        return False
    return True


async def _call(transport: Transport, name: str, port: int, called: asyncio.Event) -> bool:
    """Make the API server call a webhook at `port`; return whether it finds the port closed.

    The webhook is for one ConfigMap alone, which is only created as a dry run. It is removed at the end.
    """
    token = secrets.token_hex(8)
    label = {name: token}
    name = f"{name}-{token}"
    webhook = {
        "name": "reach.operator-manager.local",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{_HOST}:{port}/reach"},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": label},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    configuration = orjson.dumps({"metadata": {"name": name}, "webhooks": [webhook]})
    asked = orjson.dumps({"metadata": {"name": name, "labels": label}})
    try:
        await transport.request("POST", _CONFIGURATIONS, body=configuration)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while not called.is_set():
                    try:
                        await transport.request(
                            "POST",
                            "/api/v1/namespaces/default/configmaps",
                            query={"dryRun": "All"},
                            body=asked,
                        )
                    except KubeError as error:  # which it is, once the webhook is called
                        if _NOBODY in str(error) and not called.is_set():
                            return True
                    await asyncio.sleep(_EVERY)
        return False
    finally:
        with contextlib.suppress(KubeError):
            await transport.request("DELETE", f"{_CONFIGURATIONS}/{name}")
