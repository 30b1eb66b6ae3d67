"""The decision whether and how to serve webhooks, and the tasks that this takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from manager.cli.reach import AGAIN_EVERY, NotCalled, reached_address
from manager.cli.settings import Settings
from manager.kube.config import IN_CLUSTER
from manager.process.runnables import Runnable
from manager.settings import SettingsError
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable
from manager.tls.served import CertificateFiles, ClientAuthorities, ServedCertificate
from manager.util.address import is_loopback
from manager.util.garbage import give_back_large_blocks
from manager.webhook.local_registration import LocalRegistration
from manager.webhook.methods import webhooks_of
from manager.webhook.registration import Webhooks

if TYPE_CHECKING:
    from manager.certificates.factory import Certificates
    from manager.kube.config import ClusterConfig
    from manager.kube.transport import Transport
    from manager.operator import Operator
    from manager.process.manager import Manager
    from manager.util.address import BindAddress
    from manager.util.program import Program

Way = Literal["files", "secret", "local"]

_HTTPS = 443
_LOOK_EVERY = 1.0
"""Seconds for which definitions that are applied beside a developer's manager may lead elsewhere."""

_TO_TURN_ON = (
    "--webhook-url=https://HOST:9443 --webhook-bind-address=:9443 turns them on, where HOST leads here from "
    "there, and --webhook-cert-path with a certificate of yours"
)

_log = get_logger("webhook")


def certificate_way(settings: Settings, config: ClusterConfig) -> Way | None:
    """Return the way of `--webhook-certificates`, with `auto` resolved; None if that takes an attempt."""
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
    """Make the manager serve the webhooks of all `operators`, since the API server calls also idle ones'.

    Raises `RegistrationError` for webhooks that do not fit, and `SettingsError` for client authorities that
    cannot be read.
    """
    webhooks = webhooks_of(operators)
    if not webhooks:
        return
    address, url = settings.webhook_bind_address, settings.webhook_url
    way, off = certificate_way(settings, config), None
    if not settings.enable_webhooks or address is None:
        _log.info("webhooks are off, as the settings say")
        way = None
    elif way is None:
        try:
            address, url = await reached_address(settings, transport, config, manager.program)
            way = "local"
        except NotCalled as reason:
            off = reason
            _log.warning(
                f"webhooks are off: {reason}; " + ("the test is repeated" if off.passing else _TO_TURN_ON)
            )
    if url is None or way is None:
        manager.add(_looking_for_left_over(manager, settings, webhooks, transport, config))
    served = _Served(manager, settings, webhooks, transport, config)
    if way is not None and address is not None:
        await served.check_clients()
        for each in served.runnables(way, address, url):
            manager.add(each)
    elif off is not None and off.passing:
        await served.check_clients()
        later = _Later(served)
        manager.add(Runnable("webhooks", later.run))
        manager.add(Runnable("webhook-certificates", later.lead, leader_only=True))


@dataclass(frozen=True, slots=True)
class _Served:
    """All that serving the webhooks takes."""

    manager: Manager
    settings: Settings
    webhooks: Webhooks
    transport: Transport
    config: ClusterConfig

    def clients(self) -> ClientAuthorities | None:
        """Return the authorities of the API server's certificates, if it has to show one."""
        path = self.settings.webhook_client_ca_file
        # No API server shows a certificate when it wants objects converted.
        return None if path is None else ClientAuthorities(Path(path), required=not self.webhooks.conversions)

    async def check_clients(self) -> None:
        """Raise `SettingsError` for authorities that cannot be read."""
        if (clients := self.clients()) is not None:
            try:
                await asyncio.to_thread(clients.read)
            except CertificateUnusable as error:
                raise SettingsError(f"--webhook-client-ca-file: {error}") from error

    def runnables(self, way: Way, address: BindAddress, url: str | None) -> list[Runnable]:
        """Build the server and its certificate, and return the tasks to run for them."""
        # Imported here: a process without webhooks does not need these modules.
        from manager.webhook.endpoints import endpoints_of  # noqa: PLC0415
        from manager.webhook.server import WebhookServer  # noqa: PLC0415

        manager = self.manager
        _tell_who_reaches(self.settings, address, url)
        give_back_large_blocks()
        certificates = _certificates_for(
            way, url, self.settings, self.transport, self.webhooks, manager.program, self.config
        )
        served = ServedCertificate(certificates.source, clients=self.clients())
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


class _Later:
    """A task that turns webhooks on once the API server, too slow at the start, has called this process."""

    def __init__(self, served: _Served) -> None:
        self._served = served
        self._built: asyncio.Future[list[Runnable]] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Repeat the test until it has an answer, then serve."""
        served = self._served
        while True:
            await asyncio.sleep(AGAIN_EVERY)
            try:
                address, url = await reached_address(
                    served.settings, served.transport, served.config, served.manager.program
                )
            except NotCalled as reason:
                if not reason.passing:
                    _log.warning(f"webhooks stay off: {reason}; {_TO_TURN_ON}")
                    return
                _log.debug("webhooks are still off", reason=str(reason))
            else:
                _log.info("webhooks are on: the API server has called this process", url=url)
                self._built.set_result(served.runnables("local", address, url))
                await self._run(leader_only=False)

    async def lead(self) -> None:
        """Run the leader's tasks for webhooks."""
        await self._run(leader_only=True)

    async def _run(self, *, leader_only: bool) -> None:
        async with asyncio.TaskGroup() as group:
            for each in await asyncio.shield(self._built):
                if each.leader_only is leader_only:
                    group.create_task(each.run(), name=each.name)
        await asyncio.Event().wait()


def _looking_for_left_over(
    manager: Manager, settings: Settings, webhooks: Webhooks, transport: Transport, config: ClusterConfig
) -> Runnable:
    """Look once, as the leader, for registrations that an earlier manager with a URL has left behind."""

    async def look() -> None:
        prefix = settings.webhook_name_prefix
        left = LocalRegistration(
            transport, webhooks, manager.program, manager.program.prefix if prefix is None else prefix
        )
        await left.look_for_left_over(same_machine=is_loopback(config.server.host or ""))

    return Runnable("webhooks-left-over", look, leader_only=True)


def _certificates_for(
    way: Way,
    url: str | None,
    settings: Settings,
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    config: ClusterConfig,
) -> Certificates:
    """Return the source of the certificate, with the tasks that the manager has to run for it.

    `way` and `url` come from the settings, or from resolving `auto`.
    """
    # A manager without webhooks does not pay for this import.
    from manager.certificates.factory import Certificates, folder_certificates, secret_certificates  # noqa: PLC0415

    if way == "files":
        folder = Path(settings.webhook_cert_path or ".")
        return Certificates(
            CertificateFiles(
                folder / settings.webhook_cert_name,
                folder / settings.webhook_cert_key,
                flag="--webhook-cert-path",
            )
        )
    prefix = settings.webhook_name_prefix
    if prefix is None:
        prefix = program.prefix
    if way == "local":
        assert url is not None, "settings without it are refused"
        path = Path(settings.webhook_local_path)
        return folder_certificates(
            transport, webhooks, program, folder=path, prefix=prefix, url=url, look_every=_LOOK_EVERY
        )
    # The same rule as for the Lease.
    namespace = settings.leader_election_namespace or config.namespace or "default"
    return secret_certificates(transport, webhooks, program, namespace=namespace, prefix=prefix, url=url)


def _tell_who_reaches(settings: Settings, address: BindAddress, url: str | None) -> None:
    """Warn of webhooks that are for an API server elsewhere, and by default for this machine alone."""
    if url is not None and not settings.is_given(Settings.webhook_bind_address):
        asked = urlsplit(url).port or _HTTPS
        if asked != address.port:
            _log.warning(
                f"the API server calls port {asked}, but the webhooks listen on port {address.port};"
                f" unless something forwards it, give --webhook-bind-address=:{asked}",
                url=url,
                address=str(address),
            )
    here = url is not None and is_loopback(urlsplit(url).hostname or "")
    if here or settings.is_given(Settings.webhook_bind_address) or not is_loopback(address.host):
        return
    _log.warning(
        "only this machine reaches the webhooks; for an API server elsewhere, or in a container as with "
        f"kind, give --webhook-bind-address=:{address.port}",
        address=str(address),
    )
