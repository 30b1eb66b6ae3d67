"""The command `webhook-flags`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Sequence

import orjson
import structlog

from manager.address import is_loopback
from manager.cli.arguments import OperatorUnusable, UsageError
from manager.cli.failure import ServerUnusable, server_version
from manager.cli.flags import parse_flags
from manager.cli.settings import Settings
from manager.kube.config import ClusterConfig, load_config
from manager.kube.errors import KubeError
from manager.kube.http_wire import HttpWire
from manager.kube.transport import Transport
from manager.metrics import Metrics
from manager.operator import AnyOperator
from manager.program import Program
from manager.settings import SettingsError, Sources
from manager.webhook.methods import has_webhooks

HOST, PORT = "127.0.0.1", 9443
PATIENCE = 5.0  # seconds for the API server to hear of a configuration and to call
EVERY = 0.1
HANDSHAKE = b"\x16"  # what TLS begins with
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LABEL = "operator-manager/reach"


class Unreachable(Exception):
    """Why the API server does not reach us."""


def webhook_flags(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the flags with which `make run` serves webhooks, given those of `run`.

    Prints none where webhooks are set up, or turned off, by the flags themselves, the environment or the
    file, nor where no operator has any; and none where the API server could not reach them, with a line on
    standard error that says why. For then it would refuse every object that they are asked about. Whether it
    can is tried: a server on this machine's loopback may still be in a container, with a loopback of its own.
    Only such a server is tried, and only it can be told 127.0.0.1. What is wrong with `argv` the manager
    tells, and its help.
    """
    if {"-h", "--help"}.intersection(argv):
        print(f"Usage: {program.name} webhook-flags [FLAGS OF {program.name} run]", file=sys.stderr)
        return 0
    # Standard output is for flags; what there is to warn of, the manager itself says next.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        settings = Settings(Sources(parse_flags(argv, operators, program), program, file=Settings.config))
    except (OperatorUnusable, UsageError, SettingsError):
        return 0
    if not is_undecided(settings) or not any(map(has_webhooks, operators)):
        return 0
    try:
        port = asyncio.run(reachable_port(settings))
    except (KubeError, ServerUnusable):
        return 0
    except Unreachable as reason:
        print(
            f"make run: no webhooks: {reason}. "
            "ARGS='--webhook-url=https://HOST:9443 --webhook-bind-address=:9443' turns them on, where HOST "
            "leads here from there.",
            file=sys.stderr,
        )
        return 0
    print(f"--webhook-url=https://{HOST}:{port} --webhook-bind-address={HOST}:{port}")
    return 0


def is_undecided(settings: Settings) -> bool:
    """Whether nobody has said what is to be of webhooks."""
    return (
        settings.enable_webhooks
        and not settings.is_given(Settings.webhook_bind_address)
        and settings.webhook_certificates == "auto"
        and settings.webhook_url is None
        and settings.webhook_cert_path is None
    )


async def reachable_port(settings: Settings) -> int:
    """A port of this machine for the API server to call, the usual one if it is free. Raises Unreachable."""
    config = await load_config(kubeconfig=settings.kubeconfig, context=settings.context, environ=os.environ)
    if not is_loopback(config.server.host or ""):
        raise Unreachable(f"the API server {config.server} is not on this machine")
    async with listener() as (port, called), transport_to(config) as transport:
        await server_version(transport, config)
        if not await is_called(transport, port, called):
            raise Unreachable(
                f"the API server {config.server} does not reach {HOST}:{port}; it may run in a container"
            )
    return PORT if is_free(PORT) else port


@contextlib.asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A port, and the event that somebody has begun a TLS connection there.

    Not the usual port: another API server may be calling that, of a manager that was run before.
    """
    called = asyncio.Event()

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if await reader.read(1) == HANDSHAKE:
                called.set()
        writer.close()

    server = await asyncio.start_server(look, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], called


def is_free(port: int) -> bool:
    """Whether a server can listen there."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


@contextlib.asynccontextmanager
async def transport_to(config: ClusterConfig) -> AsyncIterator[Transport]:
    """A way to the API server."""
    wire = HttpWire(config)
    try:
        yield Transport(wire, metrics=Metrics(), rng=random.Random(), user_agent="operator-manager make run")
    finally:
        await wire.aclose()


async def is_called(transport: Transport, port: int, called: asyncio.Event) -> bool:
    """Whether the API server calls us when it is told of a webhook here.

    The webhook is for one ConfigMap alone, which is created as a dry run, and goes at the end.
    """
    token = secrets.token_hex(8)
    name = f"operator-manager-reach-{token}"
    webhook = {
        "name": "reach.operator-manager.local",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{HOST}:{port}/reach"},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {LABEL: token}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    configuration = orjson.dumps({"metadata": {"name": name}, "webhooks": [webhook]})
    asked = orjson.dumps({"metadata": {"name": name, "labels": {LABEL: token}}})
    try:
        await transport.request("POST", CONFIGURATIONS, body=configuration)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not called.is_set():
                    with contextlib.suppress(KubeError):  # which it is, once the webhook is asked
                        await transport.request(
                            "POST",
                            "/api/v1/namespaces/default/configmaps",
                            query={"dryRun": "All"},
                            body=asked,
                        )
                    await asyncio.sleep(EVERY)
    finally:
        with contextlib.suppress(KubeError):
            await transport.request("DELETE", f"{CONFIGURATIONS}/{name}")
    return called.is_set()
