"""The two ways in which a manager itself creates certificates: in a Secret or in a folder."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from manager.certificates.local_registration import take_away
from manager.certificates.store import READ_EVERY, FolderStore, SecretStore, Store
from manager.certificates.targets import Target, hosts_of, targets_of
from manager.kube.transport import Transport
from manager.process.manager import Runnable
from manager.tls.served import CertificateSource
from manager.util.program import Program
from manager.webhook.configurations import SECRET, SERVICE, ClientConfig, by_service, by_url
from manager.webhook.registration import Webhooks

_ROTATION = "manager.certificates.rotation"


class Certificates(NamedTuple):
    """The source of a certificate, and the runnables that provide the certificate."""

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
    read_every: float = READ_EVERY,
    **rotation: Any,
) -> Certificates:
    """Return certificates in a Secret, which the leader creates and every replica serves.

    With `url`, to which each webhook's path is added, the manager writes the whole configurations and the
    conversion of CustomResourceDefinitions. Without `url`, it adds only the CA bundle to the installed
    configurations, which name a Service. `read_every` is an option of the store, and `rotation` has options
    of `CertificateRotator`.
    """
    store = SecretStore(
        transport, program, namespace=namespace, name=f"{prefix}{SECRET}", read_every=read_every
    )
    at = by_service(namespace, f"{prefix}{SERVICE}") if url is None else by_url(url)
    targets = targets_of(transport, webhooks, program, at, prefix, whole=url is not None)
    reading = Runnable("webhook-certificate", store.follow)
    return Certificates(store, (reading, _leading(lambda: _rotate(store, targets, program, at, **rotation))))


def folder_certificates(
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    *,
    folder: Path,
    prefix: str,
    url: str,
    **rotation: Any,
) -> Certificates:
    """Return certificates in a folder of this machine; webhooks have the URL `url` until the process ends.

    For the arguments, see `secret_certificates`.
    """
    store, at = FolderStore(folder), by_url(url)
    targets = targets_of(transport, webhooks, program, at, prefix, whole=True, until_stopped=True)

    async def run() -> None:
        try:
            await _rotate(store, targets, program, at, **rotation)
        finally:
            await take_away(targets, url)

    return Certificates(store, (_leading(run),))


async def _rotate(
    store: Store, targets: Sequence[Target], program: Program, at: ClientConfig, **options: Any
) -> None:
    """Rotate the certificates; the import is here, because only the leader needs `cryptography`."""
    if _ROTATION not in sys.modules:
        # Importing the module takes some 40 milliseconds, and 8 MB.
        await asyncio.to_thread(importlib.import_module, _ROTATION)
    from manager.certificates.rotation import CertificateRotator  # noqa: PLC0415 - 37 ms, 8 MB

    used, authority = [each for each in targets if each.is_used], f"{program.name} webhooks"
    await CertificateRotator(store, used, names=hosts_of(at("")), authority=authority, **options).run()


def _leading(run: Callable[[], Coroutine[Any, Any, None]]) -> Runnable:
    return Runnable("webhook-certificates", run, leader_only=True)
