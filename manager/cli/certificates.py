"""The certificate of the webhook server, as the settings want it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from manager.certificates import Certificates, kept_in_folder, kept_in_secret
from manager.cli.settings import Settings
from manager.kube.config import ClusterConfig
from manager.kube.transport import Transport
from manager.program import Program
from manager.tls import CertificateFiles
from manager.webhook.registration import Webhooks

__all__ = ["certificates_for"]


def certificates_for(
    way: Literal["files", "secret", "local"],
    settings: Settings,
    transport: Transport,
    webhooks: Webhooks,
    program: Program,
    config: ClusterConfig,
) -> Certificates:
    """Where the certificate comes from, and what the manager has to run for it.

    `way` is what `--webhook-certificates` says, or what `auto` has come to.
    """
    if way == "files":
        folder = Path(settings.webhook_cert_path or ".")
        return Certificates(
            CertificateFiles(folder / settings.webhook_cert_name, folder / settings.webhook_cert_key)
        )
    url, prefix = settings.webhook_url, settings.webhook_name_prefix
    if prefix is None:
        prefix = program.prefix
    if way == "local":
        assert url is not None, "settings without it are refused"
        path = Path(settings.webhook_local_path)
        return kept_in_folder(transport, webhooks, program, folder=path, prefix=prefix, url=url)
    # The same rule as for the Lease.
    namespace = settings.leader_election_namespace or config.namespace or "default"
    return kept_in_secret(transport, webhooks, program, namespace=namespace, prefix=prefix, url=url)
