"""The webhooks of a ClusterServiceVersion; OLM creates their certificate, Service and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from release import PROGRAM

__all__ = ["CERTIFICATE_FLAG", "is_made_by_olm", "led_to_olms_service", "webhook_definitions"]

Manifest = dict[str, Any]

CERTIFICATE_FLAG = "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"
"""The flag with the path at which OLM mounts its certificate for a deployment with webhooks."""

_TYPES = {
    "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
}
_PORT_NAME = "webhook-server"


def is_made_by_olm(manifest: Manifest) -> bool:
    """Return whether OLM creates it: a configuration, the webhooks' Service, or a certificate role."""
    return manifest["kind"] in _TYPES or manifest["metadata"]["name"].startswith(f"{PROGRAM.prefix}webhook-")


def webhook_definitions(manifests: Iterable[Manifest], deployment: Manifest) -> Iterator[Manifest]:
    """Yield `spec.webhookdefinitions`: what is configured, then conversion, all served by `deployment`."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = [each["containerPort"] for each in container["ports"] if each["name"] == _PORT_NAME]
    # OLM's `containerPort` is the port of the Service.
    served = {"deploymentName": deployment["metadata"]["name"], "containerPort": 443, "targetPort": port}
    conversions: dict[str, list[str]] = {}
    for manifest in manifests:
        for webhook in manifest.get("webhooks", ()):
            rest = {name: value for name, value in webhook.items() if name not in {"name", "clientConfig"}}
            yield {
                "type": _TYPES[manifest["kind"]],
                "generateName": webhook["name"],
                **served,
                **rest,
                "webhookPath": webhook["clientConfig"]["service"]["path"],
            }
        if conversion := manifest.get("spec", {}).get("conversion"):
            path = conversion["webhook"]["clientConfig"]["service"]["path"]
            conversions.setdefault(path, []).append(manifest["metadata"]["name"])
    for path, definitions in conversions.items():
        yield {
            "type": "ConversionWebhook",
            "generateName": f"c{definitions[0].partition('.')[0]}.kb.io",
            **served,
            "admissionReviewVersions": ["v1"],
            "conversionCRDs": definitions,
            "sideEffects": "None",
            "webhookPath": path,
        }


def led_to_olms_service(definition: Manifest, deployment: Manifest) -> Manifest:
    """Return a custom resource definition whose conversion uses the name of OLM's Service.

    OLM fills in the namespace once the operator runs. Until then requests in a version other than the stored
    one fail; without a conversion they would lose the fields that differ.
    """
    if "conversion" not in definition["spec"]:
        return definition
    conversion = definition["spec"]["conversion"]
    service = conversion["webhook"]["clientConfig"]["service"]
    named = {**service, "name": f"{deployment['metadata']['name']}-service", "namespace": "placeholder"}
    webhook = {**conversion["webhook"], "clientConfig": {"service": named}}
    return {**definition, "spec": {**definition["spec"], "conversion": {**conversion, "webhook": webhook}}}
