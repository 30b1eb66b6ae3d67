"""Webhook configurations, and the conversion settings of a CustomResourceDefinition.

`make manifests` writes them to `config/webhook/`, with a Service. A manager with `--webhook-url`, or beside
the API server, writes them to the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from manager.util.program import Program
from manager.webhook.registration import CONVERSION_PATH, Admission, AdmissionWebhook, Webhooks
from manager.webhook.request import JsonObject

SECRET = "webhook-server-cert"  # noqa: S105 - a name
"""The Secret with the certificates, with kubebuilder's name for the one that cert-manager fills."""

SERVICE = "webhook-service"
"""The Service through which the API server reaches the webhooks."""

MUTATING = "mutating-webhook-configuration"
VALIDATING = "validating-webhook-configuration"

REVIEW_VERSIONS = ("v1",)
"""The versions of AdmissionReview and ConversionReview that the server answers."""

ClientConfig = Callable[[str], JsonObject]
"""Returns the `WebhookClientConfig` for a path."""


def by_service(namespace: str, name: str) -> ClientConfig:
    """Return the client configuration for port 443 of a Service; an injector adds the CA bundle."""
    return lambda path: {"service": {"namespace": namespace, "name": name, "path": path}}


def by_url(base: str, ca_bundle: str | None = None) -> ClientConfig:
    """Return the client configuration for `https://HOST:PORT`; `ca_bundle` is base64 of PEM, or None."""
    bundle = {} if ca_bundle is None else {"caBundle": ca_bundle}
    return lambda path: {"url": f"{base.rstrip('/')}{path}", **bundle}


def webhook_configurations(
    webhooks: Webhooks, client_config: ClientConfig, program: Program, *, prefix: str
) -> list[JsonObject]:
    """Return the MutatingWebhookConfiguration, then the ValidatingWebhookConfiguration.

    A configuration without webhooks is omitted. The names of the configurations begin with `prefix`.
    """
    sorts: tuple[tuple[str, str, Sequence[AdmissionWebhook]], ...] = (
        ("MutatingWebhookConfiguration", MUTATING, webhooks.mutating),
        ("ValidatingWebhookConfiguration", VALIDATING, webhooks.validating),
    )
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": f"{prefix}{name}"},
            "webhooks": [_webhook(each, client_config, program) for each in members],
        }
        for kind, name, members in sorts
        if members
    ]


def conversion_by(client_config: ClientConfig) -> JsonObject:
    """Return the `spec.conversion` of a CRD whose conversion webhook is at `client_config`."""
    return {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": client_config(CONVERSION_PATH),
            "conversionReviewVersions": list(REVIEW_VERSIONS),
        },
    }


def _webhook(webhook: AdmissionWebhook, client_config: ClientConfig, program: Program) -> JsonObject:
    admission, kind = webhook.admission, webhook.admission.kind
    conditions = [{"name": name, "expression": text} for name, text in admission.match_conditions.items()]
    made = {
        "name": webhook.name,
        "admissionReviewVersions": list(REVIEW_VERSIONS),
        "clientConfig": client_config(webhook.path),
        "failurePolicy": admission.failure_policy,
        "matchConditions": conditions,
        "matchPolicy": admission.match_policy,
        "namespaceSelector": _namespaces(admission, program),
        "objectSelector": dict(admission.objects),
        "reinvocationPolicy": admission.reinvocation_policy if webhook.mutating else "",
        "rules": [
            {
                "apiGroups": [kind.gvk.group],
                "apiVersions": [kind.gvk.version],
                "operations": list(webhook.operations),
                "resources": [f"{kind.plural}/{each}".rstrip("/") for each in admission.subresources],
            }
        ],
        "sideEffects": admission.side_effects,
        "timeoutSeconds": admission.timeout_seconds,
    }
    return {name: value for name, value in made.items() if value}


def _namespaces(admission: Admission[Any], program: Program) -> JsonObject:
    selector = dict(admission.namespaces)
    if admission.system_namespaces:
        return selector
    ours = [
        {"key": key, "operator": "NotIn", "values": [value]}
        for key, value in (("kubernetes.io/metadata.name", "kube-system"), *program.labels.items())
    ]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *ours]}


def field_manager_of(program: Program) -> str:
    """Return the field manager of `program` for its webhook objects."""
    return f"{program.name}-webhook"
