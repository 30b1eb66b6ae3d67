"""The two ways in which a manager keeps certificates itself."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from manager.certificates.local_registration import LocalRegistration
from manager.certificates.store import FolderStore, SecretStore, Store
from manager.certificates.targets import DEFINITION, LOOK_EVERY, Target, hosts_of
from manager.kube.transport import Transport
from manager.process.manager import Runnable
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

if TYPE_CHECKING:
    from manager.certificates.rotation import Lifetimes
    from manager.tls.certificate import Chance

_ROTATION = "manager.certificates.rotation"


class Certificates(NamedTuple):
    """Source of a certificate, with the runnables that provide it."""

    source: CertificateSource
    runnables: Sequence[Runnable] = ()


def secret_certificates(
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

    With `url`, which comes before the path of each webhook, the configurations are written as a whole, and
    conversion points there. Without it, they stay as installed, with a Service, and get the CA bundle alone.
    `lifetimes`, `read_every` and `chance` are for simulations.
    """
    name = f"{prefix}{SECRET}"
    store = SecretStore(transport, program, namespace=namespace, name=name, read_every=read_every)
    service = {"name": f"{prefix}{SERVICE}", "namespace": namespace}
    names = hosts_of({"service": service} if url is None else {"url": url})
    targets = _targets(transport, webhooks, program, prefix, url)

    async def rotate() -> None:
        await _rotate(
            store, targets, program, names, lifetimes=lifetimes, look_every=look_every, chance=chance
        )

    return Certificates(store, (Runnable("webhook-certificate", store.follow), _leading(rotate)))


def folder_certificates(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    *,
    folder: Path,
    prefix: str,
    url: str,
    look_every: float = LOOK_EVERY,
) -> Certificates:
    """Return certificates in a folder of this machine, for webhooks that have a URL while this runs.

    The arguments are those of `secret_certificates`.
    """
    store = FolderStore(folder)
    registration = LocalRegistration(transport, webhooks, program, prefix)
    targets = _targets(transport, webhooks, program, prefix, url, registration)

    async def run() -> None:
        try:
            await _rotate(store, targets, program, hosts_of({"url": url}), look_every=look_every)
        finally:
            await registration.take_away(url)

    return Certificates(store, (_leading(run),))


async def _rotate(
    store: Store, targets: Sequence[Target], program: Program, names: Sequence[str], **options: Any
) -> None:
    """Keep the certificates as the leader. Other replicas do not import `cryptography` for it."""
    if _ROTATION not in sys.modules:
        # A tenth of a second, and some megabytes.
        await asyncio.to_thread(importlib.import_module, _ROTATION)
    from manager.certificates.rotation import CertificateRotator  # noqa: PLC0415 - as the thread has done

    authority = f"{program.name} webhooks"
    await CertificateRotator(store, targets, names=names, authority=authority, **options).run()


def _leading(run: Callable[[], Coroutine[Any, Any, None]]) -> Runnable:
    return Runnable("webhook-certificates", run, leader_only=True)


def _targets(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    prefix: str,
    url: str | None,
    registration: LocalRegistration | None = None,
) -> list[Target]:
    made = partial(Target, transport, field_manager=field_manager_of(program), registration=registration)
    names = [f"{each.hub.plural}.{each.hub.gvk.group}" for each in webhooks.conversions]
    if url is None:
        sorts = (("Mutating", MUTATING, webhooks.mutating), ("Validating", VALIDATING, webhooks.validating))
        configurations = [
            made(f"{sort}WebhookConfiguration", f"{prefix}{name}", ours=[each.name for each in members])
            for sort, name, members in sorts
            if members
        ]
        return configurations + [made(DEFINITION, name) for name in names]
    at = by_url(url)
    configurations = [
        made(each["kind"], each["metadata"]["name"], wanted=each["webhooks"])
        for each in webhook_configurations(webhooks, at, program, prefix=prefix)
    ]
    return configurations + [made(DEFINITION, name, wanted=conversion_by(at)) for name in names]
