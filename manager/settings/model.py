"""Every setting, with its default, unit and what to beware of."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from manager.leader import LeaseTiming
from manager.settings.values import (
    Address,
    BaseUrl,
    Concurrency,
    Duration,
    LogFormat,
    LogLevel,
    NamePrefix,
    Names,
    Namespace,
    Namespaces,
    ObjectName,
    OwnAddress,
    Shown,
    Text,
    WebhookCertificates,
)


class Settings(BaseModel):
    """The settings of the command `run`.

    Each can be given as a flag, as an environment variable and as a key of the settings file,
    in this order of precedence. `load_settings` reads them; the description of a field is what
    `--help` prints.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    config: Annotated[Text | None, Shown("Settings", "FILE")] = Field(
        default=None,
        description="YAML file of settings; its keys are the names of these flags without the dashes",
    )

    kubeconfig: Annotated[Text | None, Shown("Cluster", "FILE")] = Field(
        default=None,
        description="kubeconfig file; else KUBECONFIG, else the pod's service account, else ~/.kube/config",
    )
    context: Annotated[Text | None, Shown("Cluster", "NAME")] = Field(
        default=None, description="context of the kubeconfig; else its current context"
    )
    namespaces: Annotated[Namespaces, Shown("Cluster", "NAME,...")] = Field(
        default=(),
        description="namespaces to watch; all of them when not set",
    )

    controllers: Annotated[Names, Shown("Controllers", "LIST")] = Field(
        default=("*",),
        description="controllers to run: '*' for all, 'foo' for foo, '-foo' for all but foo ('*,-foo'); "
        "the first entry that names a controller decides",
    )
    concurrency: Annotated[Concurrency, Shown("Controllers", "NAME=N,...")] = Field(
        default_factory=dict,
        description="how many objects a controller works on at once; may be given several times",
    )
    resync_period: Annotated[Duration, Shown("Controllers", "DURATION")] = Field(
        default=36_000.0,
        ge=0,
        description="how often every object is looked at again although nothing has changed; 0 is never",
    )
    graceful_shutdown_timeout: Annotated[Duration, Shown("Controllers", "DURATION")] = Field(
        default=30.0,
        ge=0,
        description="how long running reconciles may take to finish when the manager is stopped; "
        "a pod's terminationGracePeriodSeconds has to be longer",
    )

    shutdown_delay: Annotated[Duration, Shown("Controllers", "DURATION")] = Field(
        default=0.0,
        ge=0,
        description="how long a manager that is stopped is not ready and answers webhooks all the same, "
        "until no API server is led to it any more; runs beside the timeout above",
    )

    leader_elect: Annotated[bool, Shown("Leader election", "BOOL")] = Field(
        default=False,
        description="work only while holding the lease, so that several replicas can run; "
        "without it, never run more than one",
    )
    leader_election_id: Annotated[ObjectName | None, Shown("Leader election", "NAME")] = Field(
        default=None,
        description="name of the lease, without that of the program; replicas of one manager share it, "
        "different managers must not",
    )
    leader_election_namespace: Annotated[Namespace | None, Shown("Leader election", "NAME")] = Field(
        default=None,
        description="namespace of the lease; else the pod's own or the kubeconfig context's",
    )
    leader_elect_lease_duration: Annotated[Duration, Shown("Leader election", "DURATION")] = Field(
        default=15.0,
        description="how long others wait after the last renewal before they take over",
    )
    leader_elect_renew_deadline: Annotated[Duration, Shown("Leader election", "DURATION")] = Field(
        default=10.0,
        description="how long the leader tries to renew before it gives up and exits; "
        "the difference to the lease duration is what keeps two leaders apart",
    )
    leader_elect_retry_period: Annotated[Duration, Shown("Leader election", "DURATION")] = Field(
        default=2.0, description="wait between attempts to take or to renew the lease"
    )

    metrics_bind_address: Annotated[Address, Shown("Endpoints", "ADDRESS")] = Field(
        default_factory=OwnAddress(8080),
        description="where /metrics is served; 0 is off; in a pod the default is :8080, every interface",
    )
    metrics_secure: Annotated[bool, Shown("Endpoints", "BOOL")] = Field(
        default=False,
        description="serve /metrics over HTTPS, and only to whom the API server lets 'get' it; "
        "the address is then :8443 by custom",
    )
    metrics_cert_path: Annotated[Text | None, Shown("Endpoints", "DIR")] = Field(
        default=None,
        description="folder with the certificate for --metrics-secure, read again whenever it changes; "
        "without it a self-signed one is made in memory",
    )
    metrics_cert_name: Annotated[Text, Shown("Endpoints", "FILE")] = Field(
        default="tls.crt", description="the certificate's file in --metrics-cert-path"
    )
    metrics_cert_key: Annotated[Text, Shown("Endpoints", "FILE")] = Field(
        default="tls.key", description="the key's file in --metrics-cert-path"
    )
    health_probe_bind_address: Annotated[Address, Shown("Endpoints", "ADDRESS")] = Field(
        default_factory=OwnAddress(8081),
        description="where /healthz and /readyz are served; 0 is off; in a pod the default is :8081",
    )

    enable_webhooks: Annotated[bool, Shown("Webhooks", "BOOL")] = Field(
        default=True,
        description="serve the admission and conversion webhooks of all operators; without, no API server "
        "may be configured to ask for them",
    )
    webhook_bind_address: Annotated[Address, Shown("Webhooks", "ADDRESS")] = Field(
        default_factory=OwnAddress(9443),
        description="where webhooks are served, over HTTPS; 0 is off; in a pod the default is :9443, and an "
        "API server in a container of this machine needs that too",
    )
    webhook_certificates: Annotated[WebhookCertificates, Shown("Webhooks", "WAY")] = Field(
        default="auto",
        description="where their certificate comes from: files (those in --webhook-cert-path), secret (made "
        "by the leader, kept in a Secret, and made known to the API server), local (made in "
        "--webhook-local-path), or auto: files with --webhook-cert-path, local with --webhook-url, secret "
        "in a pod, else no webhooks",
    )
    webhook_cert_path: Annotated[Text | None, Shown("Webhooks", "DIR")] = Field(
        default=None,
        description="folder with the certificate for webhooks, read again whenever it changes",
    )
    webhook_cert_name: Annotated[Text, Shown("Webhooks", "FILE")] = Field(
        default="tls.crt", description="the certificate's file in --webhook-cert-path"
    )
    webhook_cert_key: Annotated[Text, Shown("Webhooks", "FILE")] = Field(
        default="tls.key", description="the key's file in --webhook-cert-path"
    )
    webhook_client_ca_file: Annotated[Text | None, Shown("Webhooks", "FILE")] = Field(
        default=None,
        description="authorities in PEM, read again whenever the file changes: who asks a webhook has to "
        "show a client certificate of one of them, as API servers do where they are told to, but for "
        "conversion, for which they show none; without, whoever reaches the port may ask",
    )
    webhook_url: Annotated[BaseUrl | None, Shown("Webhooks", "URL")] = Field(
        default=None,
        description="https://HOST:PORT at which the API server reaches this process, where not by a Service; "
        "the manager then writes the webhook configurations itself, and points the CRDs' conversion there",
    )
    webhook_local_path: Annotated[Text, Shown("Webhooks", "DIR")] = Field(
        default=".local/webhook",
        description="folder in which --webhook-certificates=local keeps its authority and its certificate",
    )
    webhook_name_prefix: Annotated[NamePrefix | None, Shown("Webhooks", "TEXT")] = Field(
        default=None,
        description="what the names of the webhook configurations and of the certificate's Secret begin "
        "with; without, the program's name and a dash",
    )

    log_level: Annotated[LogLevel, Shown("Logs", "LEVEL")] = Field(
        default="info", description="least level to write: debug, info, warn or error"
    )
    log_format: Annotated[LogFormat, Shown("Logs", "FORMAT")] = Field(
        default="auto", description="json, console, or auto: console on a terminal, json elsewhere"
    )

    @model_validator(mode="after")
    def _lease_times_fit(self) -> Self:
        """Refuse times with which two leaders could work at once or none could stay."""
        LeaseTiming(
            lease_duration=self.leader_elect_lease_duration,
            renew_deadline=self.leader_elect_renew_deadline,
            retry_period=self.leader_elect_retry_period,
        )
        return self

    @model_validator(mode="after")
    def _certificate_is_used(self) -> Self:
        """Refuse to serve in the clear what a certificate was given for."""
        if self.metrics_cert_path is not None and not self.metrics_secure:
            raise ValueError(
                "--metrics-cert-path is given without --metrics-secure, and metrics would go over plain HTTP"
            )
        return self

    @model_validator(mode="after")
    def _webhook_certificates_fit(self) -> Self:
        """Refuse settings of which one would do nothing, or is missing."""
        way = self.webhook_certificates
        if way == "files" and self.webhook_cert_path is None:
            raise ValueError("--webhook-certificates=files needs --webhook-cert-path")
        if way == "local" and self.webhook_url is None:
            raise ValueError(
                "--webhook-certificates=local needs --webhook-url: the certificate is for the host in it"
            )
        if self.webhook_cert_path is not None and way in {"secret", "local"}:
            raise ValueError(f"--webhook-cert-path is given, and not used by --webhook-certificates={way}")
        if self.webhook_cert_path is not None and self.webhook_url is not None:
            raise ValueError(
                "--webhook-url is given with --webhook-cert-path, and the manager does not know the "
                "authority of files: leave out either, and without the URL configure the API server by hand"
            )
        return self
