"""The two ways in which a manager keeps certificates itself, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from manager.kube.transport import Transport
from manager.program import Program
from manager.runnables import Runnable
from manager.tls import CertificateSource
from manager.webhook.certificates.configuration import InstalledConfiguration, WrittenConfiguration
from manager.webhook.certificates.definition import Definition
from manager.webhook.certificates.folder import FolderStore
from manager.webhook.certificates.keeper import LOOK_EVERY, Keeper
from manager.webhook.certificates.lifetimes import Lifetimes
from manager.webhook.certificates.secret import SecretStore
from manager.webhook.certificates.source import LocalCertificate, SecretCertificate
from manager.webhook.certificates.target import Target, hosts_of
from manager.webhook.configurations import by_url, conversion_by, webhook_configurations
from manager.webhook.names import MUTATING, SECRET, SERVICE, VALIDATING, field_manager_of
from manager.webhook.webhooks import Webhooks

__all__ = ["Certificates", "kept_in_folder", "kept_in_secret"]


class Certificates(NamedTuple):
    """Where a certificate comes from, and what has to run so that there is one."""

    source: CertificateSource
    runnables: Sequence[Runnable] = ()


def kept_in_secret(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    *,
    namespace: str,
    prefix: str,
    url: str | None = None,
    lifetimes: Lifetimes | None = None,
    look_every: float = LOOK_EVERY,
) -> Certificates:
    """Certificates in a Secret, made by the leader and served by every replica.

    Args:
        transport: for all requests.
        webhooks: all that are served; wherever the API server is told of them, it is told whom to trust.
        program: whose they are.
        namespace: where the Secret is: the manager's own.
        prefix: what the names of the Secret and of the webhook configurations begin with.
        url: what comes before the path of each webhook. The configurations are then written as a whole, and
            conversion is pointed there; without it, they are what somebody has installed, with a Service.
        lifetimes: of what is made; default those of `Lifetimes`.
        look_every: seconds between two looks of the leader at what it has written.
    """
    store = SecretStore(transport, program, namespace=namespace, name=f"{prefix}{SECRET}")
    service = {"name": f"{prefix}{SERVICE}", "namespace": namespace}
    keeper = Keeper(
        store,
        _targets(transport, webhooks, program, prefix, url),
        authority=f"{program.name} webhooks",
        names=hosts_of({"service": service} if url is None else {"url": url}),
        lifetimes=lifetimes,
        look_every=look_every,
    )
    source = SecretCertificate(store)
    return Certificates(source, (Runnable("webhook-certificate", source.follow), _leading(keeper)))


def kept_in_folder(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    *,
    folder: Path,
    prefix: str,
    url: str,
    lifetimes: Lifetimes | None = None,
    look_every: float = LOOK_EVERY,
) -> Certificates:
    """Certificates in a folder of this machine, for webhooks that are reached by a URL.

    The arguments are those of `kept_in_secret`.
    """
    store = FolderStore(folder)
    keeper = Keeper(
        store,
        _targets(transport, webhooks, program, prefix, url),
        authority=f"{program.name} webhooks",
        names=hosts_of({"url": url}),
        lifetimes=lifetimes,
        look_every=look_every,
    )
    return Certificates(LocalCertificate(store), (_leading(keeper),))


def _leading(keeper: Keeper) -> Runnable:
    return Runnable("webhook-certificates", keeper.run, leader_only=True)


def _targets(
    transport: Transport, webhooks: Webhooks, program: Program, prefix: str, url: str | None
) -> list[Target]:
    manager = field_manager_of(program)
    conversions = {f"{each.hub.plural}.{each.hub.gvk.group}": each for each in webhooks.conversions}
    if url is None:
        sorts = (("Mutating", MUTATING, webhooks.mutating), ("Validating", VALIDATING, webhooks.validating))
        return [
            *(
                InstalledConfiguration(
                    transport,
                    f"{sort}WebhookConfiguration",
                    f"{prefix}{name}",
                    [each.name for each in members],
                    field_manager=manager,
                )
                for sort, name, members in sorts
                if members
            ),
            *(Definition(transport, name, field_manager=manager) for name in conversions),
        ]
    at = by_url(url)
    return [
        *(
            WrittenConfiguration(transport, each, field_manager=manager)
            for each in webhook_configurations(webhooks, at, prefix=prefix)
        ),
        *(
            Definition(transport, name, field_manager=manager, wanted=conversion_by(each, at))
            for name, each in conversions.items()
        ),
    ]
