"""The decision whether and how to serve webhooks, and the tasks that serve them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import orjson

from manager.certificates.factory import Certificates, folder_certificates, secret_certificates
from manager.certificates.local_registration import may, remove_left_over
from manager.certificates.targets import targets_of
from manager.cli.settings import Settings
from manager.kube.config import IN_CLUSTER
from manager.kube.errors import KubeError, ServerError, TooManyRequests, TransportError
from manager.kube.transport import Transport
from manager.process.manager import Runnable
from manager.settings import SettingsError
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable
from manager.tls.served import CertificateFiles, ClientAuthorities, ServedCertificate
from manager.util.address import BindAddress, is_loopback
from manager.util.memory import give_back_large_blocks
from manager.util.program import Program
from manager.webhook.configurations import by_url
from manager.webhook.methods import webhooks_of
from manager.webhook.registration import Webhooks

if TYPE_CHECKING:
    from manager.kube.config import ClusterConfig
    from manager.operator import Operator
    from manager.process.manager import Manager

Way = Literal["files", "secret", "local"]

_LOOK_EVERY = 1.0
"""Seconds after which changed CRDs, applied beside a developer's manager, point to this manager again."""

_TO_TURN_ON = (
    "--webhook-url=https://HOST:9443 --webhook-bind-address=:9443 turns them on, if the API server reaches "
    "this machine at HOST; or use --webhook-cert-path with a certificate of yours"
)

_log = get_logger("webhook")

_HOST, _PORT = "127.0.0.1", 9443
_PATIENCE = 5.0
"""Seconds in which the API server has to see a new configuration and call the webhook."""

AGAIN_EVERY = 10.0
"""Seconds between two tests of an API server that was too slow."""

_EVERY = 0.1
_NOBODY = "connection refused"
"""The API server's error for a webhook whose port is closed on its side."""

_HANDSHAKE = b"\x16"
"""The first byte of TLS."""

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def certificate_way(settings: Settings, config: ClusterConfig) -> Way | None:
    """Return the source of the webhooks' certificate; None if it is `auto`, and only a test can decide."""
    if settings.webhook_certificates != "auto":
        return settings.webhook_certificates
    if settings.webhook_cert_path is not None:
        return "files"
    if settings.webhook_url is not None:
        return "local"
    return "secret" if config.source == IN_CLUSTER else None


async def add_webhooks(
    manager: Manager,
    settings: Settings,
    operators: Sequence[Operator[Any]],
    transport: Transport,
    config: ClusterConfig,
) -> None:
    """Make the manager serve the webhooks of all `operators`, because the API server calls them all.

    Raises `RegistrationError`, and `SettingsError` for an unreadable file of client authorities.
    """
    webhooks = webhooks_of(operators)
    if not webhooks:
        return
    address, url = settings.webhook_bind_address, settings.webhook_url
    way, off = certificate_way(settings, config), None
    if not settings.enable_webhooks or address is None:
        _log.info("webhooks are off: the settings disable them")
        way = None
    elif way is None:
        try:
            address, url = await reached_address(settings, transport, config, manager.program)
            way = "local"
        except NotCalled as reason:
            off = reason
            hint = "the manager tests again later" if off.passing else _TO_TURN_ON
            _log.warning("webhooks are off", reason=str(reason), hint=hint)
    serving = _Serving(manager, settings, webhooks, transport, config)
    if (url is None or way is None) and is_loopback(config.server.host or ""):
        manager.add(Runnable("webhooks-left-over", serving.remove_left_over, leader_only=True))
    if way is not None and address is not None:
        await serving.check_clients()
        for each in serving.runnables(way, address, url):
            manager.add(each)
    elif off is not None and off.passing:
        await serving.check_clients()
        manager.add(Runnable("webhooks", serving.run_once_called))
        manager.add(Runnable("webhook-certificates", serving.lead_once_called, leader_only=True))


@dataclass(eq=False)
class _Serving:
    """The webhook server and its certificate, started immediately or after a call by the API server."""

    manager: Manager
    settings: Settings
    webhooks: Webhooks
    transport: Transport
    config: ClusterConfig

    def __post_init__(self) -> None:
        prefix, path = self.settings.webhook_name_prefix, self.settings.webhook_client_ca_file
        self._prefix = self.manager.program.prefix if prefix is None else prefix
        self._shared = self.transport, self.webhooks, self.manager.program
        # No API server presents a certificate for conversions.
        required = not self.webhooks.conversions
        self._clients = None if path is None else ClientAuthorities(Path(path), required=required)
        self._built: asyncio.Future[list[Runnable]] = asyncio.get_running_loop().create_future()

    async def check_clients(self) -> None:
        if self._clients is not None:
            try:
                await asyncio.to_thread(self._clients.read)
            except CertificateUnusable as error:
                raise SettingsError(f"--webhook-client-ca-file: {error}") from error

    def runnables(self, way: Way, address: BindAddress, url: str | None) -> list[Runnable]:
        """Create the server and its certificate, and return the tasks to run for them.

        The arguments are values of settings, or the results of a test if they are `auto`.
        """
        from manager.webhook.endpoints import endpoints_of  # noqa: PLC0415 - 8 ms, 0.9 MB
        from manager.webhook.server import WebhookServer  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

        manager = self.manager
        _warn_of_unreachable(self.settings, address, url)
        give_back_large_blocks()
        certificates = self._certificates(way, url)
        served = ServedCertificate(certificates.source, clients=self._clients)
        manager.certificates["webhooks"] = served
        server = WebhookServer(
            address,
            endpoints_of(self.webhooks, manager.metrics),
            served,
            metrics=manager.metrics,
            stopping=lambda: manager.stopping,
        )
        manager.health.readiness.add("webhook", lambda: server.problem)
        return [*certificates.runnables, Runnable("webhooks", server.run)]

    def _certificates(self, way: Way, url: str | None) -> Certificates:
        settings, prefix = self.settings, self._prefix
        if way == "files":
            folder = Path(settings.webhook_cert_path or ".")
            cert, key = folder / settings.webhook_cert_name, folder / settings.webhook_cert_key
            return Certificates(CertificateFiles(cert, key, flag="--webhook-cert-path"))
        if way == "local":
            assert url is not None, "settings without it are refused"
            folder = Path(settings.webhook_local_path)
            return folder_certificates(
                *self._shared, folder=folder, prefix=prefix, url=url, look_every=_LOOK_EVERY
            )
        # The same rule as for the Lease.
        namespace = settings.leader_election_namespace or self.config.namespace or "default"
        return secret_certificates(*self._shared, namespace=namespace, prefix=prefix, url=url)

    async def remove_left_over(self) -> None:
        await remove_left_over(self.transport, targets_of(*self._shared, by_url(""), self._prefix))

    async def run_once_called(self) -> None:
        """Repeat the test until the API server calls this process, then serve; return if it cannot call."""
        while True:
            await asyncio.sleep(AGAIN_EVERY)
            try:
                address, url = await reached_address(
                    self.settings, self.transport, self.config, self.manager.program
                )
            except NotCalled as reason:
                if not reason.passing:
                    _log.warning("webhooks stay off", reason=str(reason), hint=_TO_TURN_ON)
                    return
                _log.debug("webhooks are still off; the manager tests again later", reason=str(reason))
            else:
                _log.info("webhooks are on: the API server has called this process", url=url)
                self._built.set_result(self.runnables("local", address, url))
                await self._run(leader_only=False)

    async def lead_once_called(self) -> None:
        await self._run(leader_only=True)

    async def _run(self, *, leader_only: bool) -> None:
        async with asyncio.TaskGroup() as group:
            for each in await asyncio.shield(self._built):
                if each.leader_only is leader_only:
                    group.create_task(each.run(), name=each.name)
        await asyncio.Event().wait()


def _warn_of_unreachable(settings: Settings, address: BindAddress, url: str | None) -> None:
    """Log a warning if the API server is elsewhere, but the webhooks listen only at a local address."""
    here = url is not None and is_loopback(urlsplit(url).hostname or "")
    if here or settings.is_given(Settings.webhook_bind_address) or not is_loopback(address.host):
        return
    elsewhere = "for an API server elsewhere, or in a container as with kind"
    hint = f"{elsewhere}, give --webhook-bind-address=:{address.port}"
    _log.warning("only this machine can reach the webhooks", address=str(address), hint=hint)


class NotCalled(Exception):
    """The reason why the API server does not reach us; with `passing`, a later test may succeed."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


async def reached_address(
    settings: Settings, transport: Transport, config: ClusterConfig, program: Program
) -> tuple[BindAddress, str]:
    """Return an address to listen on, and its URL for the API server: from the settings, or a free port.

    An API server with a loopback address may run in a container with a loopback of its own, so a test call
    decides. Raises `NotCalled` with the reason if the API server cannot call.
    """
    if not is_loopback(config.server.host or ""):
        raise NotCalled(f"the API server {config.server} is not on this machine")
    async with _listener() as (port, called):
        try:
            if not await may(transport, "create", f"{_CONFIGURATIONS}/"):
                raise NotCalled("these credentials may not register webhooks")
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

    The port is not the usual one, which an API server may still call because of an earlier manager.
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
    try:
        socket.create_server((_HOST, port)).close()
    except OSError:
        return False
    return True


async def _call(transport: Transport, name: str, port: int, called: asyncio.Event) -> bool:
    """Make the API server call a webhook at `port`; return whether the server finds the port closed.

    The webhook matches one ConfigMap, which is only created as a dry run. The webhook is removed at the end.
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
                    except KubeError as error:  # expected when the webhook is called
                        if _NOBODY in str(error) and not called.is_set():
                            return True
                    await asyncio.sleep(_EVERY)
        return False
    finally:
        with contextlib.suppress(KubeError):
            await transport.request("DELETE", f"{_CONFIGURATIONS}/{name}")
