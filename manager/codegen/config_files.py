"""Which files under `config/` are generated, named as kubebuilder names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apis.meta import Resource
from manager.codegen.documents import yaml_document, yaml_stream
from manager.codegen.manifest import custom_resource_definitions
from manager.codegen.roles import (
    admin_role,
    editor_role,
    leader_election_role,
    manager_role,
    metrics_auth_role,
    metrics_reader_role,
    role_bindings,
    service_account,
    storage_migration_role,
    viewer_role,
    webhook_certificate_role,
    webhook_injection_role,
    webhook_role_bindings,
)
from manager.codegen.webhook_files import (
    AUTHORITY_SECRET,
    authority,
    certificate,
    certificate_references,
    conversion_references,
    named_secret,
    webhook_manifests,
    webhook_references,
    webhook_service,
)
from manager.rbac import RbacRule
from manager.webhook.names import SECRET
from manager.webhook.webhooks import Webhooks

__all__ = ["config_files"]

Manifest = dict[str, Any]
Manifests = Mapping[str, Manifest | list[Manifest]]
"""By the names of the files in a folder."""

_KUSTOMIZATION = "kustomization.yaml"
_REFERENCES = "kustomizeconfig.yaml"


def config_files(
    kinds: Sequence[type[Resource]], rules: Iterable[RbacRule], samples: Iterable[str], webhooks: Webhooks
) -> dict[str, str]:
    """Return the text of each generated file by its path under `config/`.

    `samples` are the names of the hand-written files in `config/samples/`. Raises ModelError as
    `custom_resource_definitions` does.
    """
    definitions = custom_resource_definitions(kinds, webhooks.conversions)
    converted = [each["metadata"]["name"] for each in definitions if "conversion" in each["spec"]]
    return {
        **_folder(
            "crd",
            {f"bases/{_crd_file(each)}": each for each in definitions},
            conversion_references() if converted else None,
        ),
        **_folder("rbac", _rbac(kinds, rules) | (_webhook_rbac(converted) if webhooks else {})),
        **(_webhooks(webhooks) if webhooks else {}),
        f"samples/{_KUSTOMIZATION}": yaml_document(_kustomization(sorted(samples))),
    }


def _crd_file(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _rbac(kinds: Sequence[type[Resource]], rules: Iterable[RbacRule]) -> dict[str, Manifest]:
    manager_binding, leader_election_binding, metrics_binding = role_bindings()
    files = {
        "service_account.yaml": service_account(),
        "role.yaml": manager_role(rules),
        "role_binding.yaml": manager_binding,
        "leader_election_role.yaml": leader_election_role(),
        "leader_election_role_binding.yaml": leader_election_binding,
        "metrics_auth_role.yaml": metrics_auth_role(),
        "metrics_auth_role_binding.yaml": metrics_binding,
        "metrics_reader_role.yaml": metrics_reader_role(),
        "storage_migration_role.yaml": storage_migration_role(kinds),
    }
    for kind in kinds:
        name = kind.gvk.kind.lower()
        files[f"{name}_admin_role.yaml"] = admin_role(kind)
        files[f"{name}_editor_role.yaml"] = editor_role(kind)
        files[f"{name}_viewer_role.yaml"] = viewer_role(kind)
    return files


def _webhook_rbac(converted: Iterable[str]) -> dict[str, Manifest]:
    certificate_binding, injection_binding = webhook_role_bindings()
    return {
        "webhook_certificate_role.yaml": webhook_certificate_role(),
        "webhook_certificate_role_binding.yaml": certificate_binding,
        "webhook_injection_role.yaml": webhook_injection_role(converted),
        "webhook_injection_role_binding.yaml": injection_binding,
    }


def _webhooks(webhooks: Webhooks) -> dict[str, str]:
    """What leads the API server to the webhooks, and what cert-manager can do for them."""
    configurations: Manifests = {
        "manifests.yaml": webhook_manifests(webhooks),
        "service.yaml": webhook_service(),
        "secret.yaml": named_secret(SECRET),
    }
    certificates: Manifests = {
        "issuer.yaml": authority(),
        "certificate-webhook.yaml": certificate(),
        "secret.yaml": named_secret(AUTHORITY_SECRET),
    }
    return {
        **_folder("webhook", configurations, webhook_references()),
        **_folder("certmanager", certificates, certificate_references()),
    }


def _folder(folder: str, manifests: Manifests, references: Manifest | None = None) -> dict[str, str]:
    """Return a folder's files, with the kustomization that lists them.

    `references` say where names stand that kustomize does not know of.
    """
    files = {
        f"{folder}/{name}": yaml_stream(content) if isinstance(content, list) else yaml_document(content)
        for name, content in manifests.items()
    }
    kustomization = _kustomization(list(manifests))
    if references is not None:
        kustomization["configurations"] = [_REFERENCES]
        files[f"{folder}/{_REFERENCES}"] = yaml_document(references)
    files[f"{folder}/{_KUSTOMIZATION}"] = yaml_document(kustomization)
    return files


def _kustomization(resources: list[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }
