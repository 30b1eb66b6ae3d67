"""The webhooks as a ClusterServiceVersion has them: OLM makes their certificate, and what leads to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from release.chart import PREFIX

__all__ = ["CERTIFICATE_FLAG", "is_made_by_olm", "led_to_olms_service", "webhook_definitions"]

Manifest = dict[str, Any]

CERTIFICATE_FLAG = "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"
"""Where OLM mounts the certificate that it makes for a deployment with webhooks."""

_TYPES = {
    "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
}
_PORT_NAME = "webhook-server"


def is_made_by_olm(manifest: Manifest) -> bool:
    """Whether it is a configuration, the webhooks' Service, or a role for looking after their certificate."""
    return manifest["kind"] in _TYPES or manifest["metadata"]["name"].startswith(f"{PREFIX}webhook-")


def webhook_definitions(manifests: Iterable[Manifest], deployment: Manifest) -> Iterator[Manifest]:
    """Yield `spec.webhookdefinitions`: what is configured, then conversion, all served by `deployment`."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = [each["containerPort"] for each in container["ports"] if each["name"] == _PORT_NAME]
    # What OLM calls `containerPort` is the port of the Service.
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
    """The custom resource definition with the name that OLM gives the Service, where it is converted.

    OLM puts in the namespace, too, once the operator runs. Until then requests in another version than the
    stored one fail, while without any conversion they would lose what differs between the versions.
    """
    if "conversion" not in definition["spec"]:
        return definition
    conversion = definition["spec"]["conversion"]
    service = conversion["webhook"]["clientConfig"]["service"]
    named = {**service, "name": f"{deployment['metadata']['name']}-service", "namespace": "placeholder"}
    webhook = {**conversion["webhook"], "clientConfig": {"service": named}}
    return {**definition, "spec": {**definition["spec"], "conversion": {**conversion, "webhook": webhook}}}
