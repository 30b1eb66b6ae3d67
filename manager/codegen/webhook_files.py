"""What leads the API server to the webhooks in a cluster: configurations, a Service, cert-manager's objects.

Names and folders are kubebuilder's. They are written as they are before kustomize puts a prefix to the names
and everything into one namespace; the files `kustomizeconfig.yaml` say where else such a name stands.
"""

from __future__ import annotations

from typing import Any

from manager.codegen.manifest import UNPLACED
from manager.program import Program
from manager.webhook.configurations import SECRET, SERVICE, webhook_configurations
from manager.webhook.registration import Webhooks

Manifest = dict[str, Any]

# Replaced by kustomize, together with a prefix to the names, where the whole is put together.
_NAMESPACE = "system"

AUTHORITY_SECRET = "webhook-ca-cert"  # noqa: S105 - its name
"""Where cert-manager keeps the authority; nobody else reads it."""

_CERT_MANAGER = "cert-manager.io"
_ADMISSION = "admissionregistration.k8s.io"


def webhook_manifests(webhooks: Webhooks, program: Program) -> list[Manifest]:
    """Return the configurations, which ask the Service."""
    return webhook_configurations(webhooks, UNPLACED, program, prefix="")


def webhook_service(program: Program) -> Manifest:
    """Return the Service: 443, as API servers expect it, to `webhook-server` of the manager's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(SERVICE),
        "spec": {
            "selector": {"control-plane": "controller-manager", **program.labels},
            "ports": [{"name": "https", "port": 443, "targetPort": "webhook-server", "protocol": "TCP"}],
        },
    }


def named_secret(name: str) -> Manifest:
    """Return the Secret of a certificate as nothing but a name.

    The annotation keeps it out of what kustomize makes: whoever makes the certificate makes the Secret. Its
    name gets the prefix all the same, and so do the places that name it.
    """
    metadata = {**_metadata(name), "annotations": {"config.kubernetes.io/local-config": "true"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls"}


def webhook_references() -> Manifest:
    """Return where else the configurations are named: in the role of whoever puts the CA bundle there."""
    role = {"kind": "ClusterRole", "group": "rbac.authorization.k8s.io", "path": "rules/resourceNames"}
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {
        "nameReference": [{"kind": kind, "group": _ADMISSION, "fieldSpecs": [dict(role)]} for kind in kinds]
    }


def conversion_references() -> Manifest:
    """Return where else the Service is named: in the definitions of kinds that are converted."""
    path = "spec/conversion/webhook/clientConfig/service/name"
    definition = {"kind": "CustomResourceDefinition", "group": "apiextensions.k8s.io", "path": path}
    return {"nameReference": [{"kind": "Service", "version": "v1", "fieldSpecs": [definition]}]}


def authority(program: Program) -> list[Manifest]:
    """Return cert-manager's objects for an authority of our own, and the Issuer that signs with it.

    Not kubebuilder's self-signed serving certificate: each renewal of one is a new authority, which the API
    server is told of a minute before the pods have the certificate, and nobody could write until then.
    """
    return [
        _cert_manager("Issuer", "selfsigned-issuer", {"selfSigned": {}}),
        _cert_manager(
            "Certificate",
            "webhook-ca",
            {
                "isCA": True,
                "commonName": f"{program.name}-webhook-ca",
                # Ten years. A renewed authority keeps its key, so it vouches for what it has signed before.
                "duration": "87600h",
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
                "secretName": AUTHORITY_SECRET,
                "issuerRef": {"kind": "Issuer", "name": "selfsigned-issuer"},
            },
        ),
        _cert_manager("Issuer", "webhook-ca-issuer", {"ca": {"secretName": AUTHORITY_SECRET}}),
    ]


def certificate() -> Manifest:
    """Return the Certificate that cert-manager keeps valid in the Secret.

    The names in it are those of the Service, whose two parts kustomize's `replacements` put in.
    """
    return _cert_manager(
        "Certificate",
        "serving-cert",
        {
            "dnsNames": [f"{SERVICE}.{_NAMESPACE}.svc", f"{SERVICE}.{_NAMESPACE}.svc.cluster.local"],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "secretName": SECRET,
            "issuerRef": {"kind": "Issuer", "name": "webhook-ca-issuer"},
        },
    )


def certificate_references() -> Manifest:
    """Return where else the Issuers and the Secrets are named: in the Certificates and in an Issuer."""
    api = {"group": _CERT_MANAGER}
    return {
        "nameReference": [
            {
                "kind": "Issuer",
                **api,
                "fieldSpecs": [{"kind": "Certificate", **api, "path": "spec/issuerRef/name"}],
            },
            {
                "kind": "Secret",
                "version": "v1",
                "fieldSpecs": [
                    {"kind": "Certificate", **api, "path": "spec/secretName"},
                    {"kind": "Issuer", **api, "path": "spec/ca/secretName"},
                ],
            },
        ]
    }


def _cert_manager(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": f"{_CERT_MANAGER}/v1", "kind": kind, "metadata": _metadata(name), "spec": spec}


def _metadata(name: str) -> Manifest:
    return {"name": name, "namespace": _NAMESPACE}
