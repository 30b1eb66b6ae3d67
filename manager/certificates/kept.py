"""The two ways in which a manager keeps certificates itself, put together, and the rights they take."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from manager.api.rights import RbacRule
from manager.certificates.folder import FolderCertificate, FolderStore
from manager.certificates.keeper import LOOK_EVERY, Keeper
from manager.certificates.lifetimes import Lifetimes
from manager.certificates.secret import SecretCertificate, SecretStore
from manager.certificates.targets import (
    ConvertedDefinition,
    InstalledConfiguration,
    Target,
    WrittenConfiguration,
    hosts_of,
)
from manager.kube.transport import Transport
from manager.process.manager import Runnable
from manager.tls.issue import Chance
from manager.tls.served import CertificateSource
from manager.util.program import Program
from manager.webhook.configurations import (
    MUTATING,
    SECRET,
    SERVICE,
    VALIDATING,
    by_url,
    conversion_by,
    field_manager_of,
    webhook_configurations,
)
from manager.webhook.registration import Webhooks
from manager.webhook.until_stopped import UntilStopped


class Certificates(NamedTuple):
    """Source of a certificate, with the runnables that provide it."""

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
    read_every: float | None = None,
    chance: Chance | None = None,
) -> Certificates:
    """Return certificates in a Secret, made by the leader and served by every replica.

    Args:
        transport: for all requests.
        webhooks: all served webhooks; each of their configurations and CRDs gets the CA bundle.
        program: the program that owns them.
        namespace: the namespace of the Secret: the manager's own.
        prefix: of the names of the Secret and of the webhook configurations.
        url: comes before the path of each webhook. With it, the configurations are written as a whole and
            conversion points there; without it, they stay as installed, with a Service.
        lifetimes: of new authorities and certificates; default those of `Lifetimes`.
        look_every: seconds between two looks of the leader at the objects that it has written.
        read_every: seconds between two reads of the Secret by each replica; default 5.
        chance: source of keys in a simulation.
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
        chance=chance,
    )
    source = SecretCertificate(store, read_every)
    return Certificates(source, (Runnable("webhook-certificate", source.follow), _leading(keeper.run)))


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
    """Certificates in a folder of this machine, for webhooks that are reached by a URL while this runs.

    The arguments are those of `kept_in_secret`.
    """
    store = FolderStore(folder)
    until_stopped = UntilStopped(transport, webhooks, program, prefix)
    keeper = Keeper(
        store,
        _targets(transport, webhooks, program, prefix, url, until_stopped),
        authority=f"{program.name} webhooks",
        names=hosts_of({"url": url}),
        lifetimes=lifetimes,
        look_every=look_every,
    )

    async def run() -> None:
        try:
            await keeper.run()
        finally:
            await until_stopped.take_away(url)

    return Certificates(FolderCertificate(store), (_leading(run),))


def _leading(run: Callable[[], Coroutine[Any, Any, None]]) -> Runnable:
    return Runnable("webhook-certificates", run, leader_only=True)


def _targets(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    prefix: str,
    url: str | None,
    until_stopped: UntilStopped | None = None,
) -> list[Target]:
    manager = field_manager_of(program)
    converted = [f"{each.hub.plural}.{each.hub.gvk.group}" for each in webhooks.conversions]
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
            *(ConvertedDefinition(transport, name, field_manager=manager) for name in converted),
        ]
    at = by_url(url)
    return [
        *(
            WrittenConfiguration(transport, each, field_manager=manager, until_stopped=until_stopped)
            for each in webhook_configurations(webhooks, at, program, prefix=prefix)
        ),
        *(
            ConvertedDefinition(
                transport,
                name,
                field_manager=manager,
                wanted=conversion_by(at),
                until_stopped=until_stopped,
            )
            for name in converted
        ),
    ]


def secret_rights(prefix: str) -> tuple[RbacRule, ...]:
    """Return the rules of a Role in the Secret's namespace.

    `prefix` is the prefix of the Secret's name.
    """
    return (
        RbacRule(("",), ("secrets",), ("get", "update"), (f"{prefix}{SECRET}",)),
        RbacRule(("",), ("secrets",), ("create",)),
    )


def injection_rights(prefix: str, definitions: Iterable[str]) -> tuple[RbacRule, ...]:
    """Return the cluster-wide rules for reading webhook configurations and CRDs and setting their CA bundle.

    `prefix` is the prefix of the configurations' names, `definitions` are the names of the CRDs whose objects
    a webhook converts, such as "pets.petstore.example.com".
    """
    api = "admissionregistration.k8s.io"
    rules = [
        RbacRule((api,), ("mutatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{MUTATING}",)),
        RbacRule((api,), ("validatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{VALIDATING}",)),
    ]
    if names := tuple(sorted(definitions)):
        kinds = ("customresourcedefinitions",)
        rules.append(RbacRule(("apiextensions.k8s.io",), kinds, ("get", "patch"), names))
    return tuple(rules)
