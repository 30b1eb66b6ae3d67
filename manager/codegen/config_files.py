"""Which files under `config/` are generated, named as kubebuilder names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from manager.api import Resource
from manager.codegen.manifest import custom_resource_definitions
from manager.codegen.roles import (
    admin_role,
    editor_role,
    leader_election_role,
    manager_role,
    metrics_auth_role,
    metrics_reader_role,
    operator_access,
    owner_references_access,
    role_bindings,
    service_account,
    storage_migration_role,
    viewer_role,
    webhook_certificate_role,
    webhook_injection_role,
    webhook_role_bindings,
)
from manager.codegen.tree import yaml_document, yaml_stream
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
from manager.program import Program
from manager.rights import RbacRule
from manager.webhook.configurations import SECRET
from manager.webhook.registration import Webhooks

Manifest = dict[str, Any]
Manifests = Mapping[str, Manifest | list[Manifest]]
"""By the names of the files in a folder."""

_KUSTOMIZATION = "kustomization.yaml"
_REFERENCES = "kustomizeconfig.yaml"
_DELETED = "$patch: delete\nkind: Namespace\nmetadata:\n  name: any\n"


def config_files(
    program: Program,
    kinds: Sequence[type[Resource]],
    rules: Mapping[str, Sequence[RbacRule]],
    samples: Iterable[str],
    webhooks: Webhooks,
) -> dict[str, str]:
    """Return the text of each generated file of `program` by its path under `config/`.

    `rules` are by the names of the operators that need them, `samples` the names of the hand-written files in
    `config/samples/`. Raises ModelError as `custom_resource_definitions` does.
    """
    every = [rule for each in rules.values() for rule in each]
    owner_role, owner_binding = owner_references_access(every)
    definitions = custom_resource_definitions(kinds, webhooks.conversions)
    converted = [each["metadata"]["name"] for each in definitions if "conversion" in each["spec"]]
    return {
        **_folder(
            "crd",
            {f"bases/{_crd_file(each)}": each for each in definitions},
            references=conversion_references() if converted else None,
        ),
        **_folder(
            "rbac", _rbac(program, kinds, every) | (_webhook_rbac(converted) if webhooks else {}), program
        ),
        **_folder("owner-references", {"role.yaml": owner_role, "role_binding.yaml": owner_binding}, program),
        **_per_operator(program, rules),
        **(_webhooks(program, webhooks) if webhooks else {}),
        f"samples/{_KUSTOMIZATION}": yaml_document(_kustomization(sorted(samples))),
    }


def _crd_file(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _rbac(
    program: Program, kinds: Sequence[type[Resource]], rules: Iterable[RbacRule]
) -> dict[str, Manifest]:
    manager_binding, leader_election_binding, metrics_binding = role_bindings()
    files = {
        "service_account.yaml": service_account(),
        "role.yaml": manager_role(rules),
        "role_binding.yaml": manager_binding,
        "leader_election_role.yaml": leader_election_role(program.name),
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


def _per_operator(program: Program, rules: Mapping[str, Sequence[RbacRule]]) -> dict[str, str]:
    """A Deployment, an account and its roles for each operator; their names end with the operator's."""
    folder = "per-operator/operators"
    files = {f"{folder}/{_KUSTOMIZATION}": yaml_document(_kustomization(list(rules)))}
    for operator, theirs in rules.items():
        lease = f"{program.prefix}{operator}"
        kustomization = _kustomization(["../../../manager", "rbac.yaml"])
        kustomization["nameSuffix"] = f"-{operator}"
        component = {"app.kubernetes.io/component": operator}
        kustomization["labels"] = [{"pairs": component, "includeSelectors": True}]
        kustomization["patches"] = [
            {"target": {"kind": "Namespace"}, "patch": _DELETED},
            {"target": {"kind": "Deployment"}, "patch": _alone(operator, lease)},
        ]
        files[f"{folder}/{operator}/{_KUSTOMIZATION}"] = yaml_document(kustomization)
        files[f"{folder}/{operator}/rbac.yaml"] = yaml_stream(
            _labelled(each, program) for each in operator_access(lease, theirs)
        )
    return files


def _alone(operator: str, lease: str) -> str:
    """A patch of the Deployment, as YAML, by which it runs nothing but that operator."""
    flags = (
        *(f"--controllers={operator}", f"--leader-election-id={lease}"),
        *("--metrics-bind-address=:8443", "--metrics-secure"),
    )
    container = "/spec/template/spec/containers/0"
    operations: list[Manifest] = [
        {"op": "add", "path": f"{container}/args/-", "value": flag} for flag in flags
    ]
    port = {"name": "metrics", "containerPort": 8443, "protocol": "TCP"}
    operations.append({"op": "add", "path": f"{container}/ports/-", "value": port})
    text: str = yaml.safe_dump(operations, sort_keys=False)
    return text


def _webhook_rbac(converted: Iterable[str]) -> dict[str, Manifest]:
    certificate_binding, injection_binding = webhook_role_bindings()
    return {
        "webhook_certificate_role.yaml": webhook_certificate_role(),
        "webhook_certificate_role_binding.yaml": certificate_binding,
        "webhook_injection_role.yaml": webhook_injection_role(converted),
        "webhook_injection_role_binding.yaml": injection_binding,
    }


def _webhooks(program: Program, webhooks: Webhooks) -> dict[str, str]:
    """What leads the API server to the webhooks, and what cert-manager can do for them."""
    configurations: Manifests = {
        "manifests.yaml": webhook_manifests(webhooks, program),
        "service.yaml": webhook_service(program),
        "secret.yaml": named_secret(SECRET),
    }
    certificates: Manifests = {
        "issuer.yaml": authority(program),
        "certificate-webhook.yaml": certificate(),
        "secret.yaml": named_secret(AUTHORITY_SECRET),
    }
    return {
        **_folder("webhook", configurations, program, webhook_references()),
        **_folder("certmanager", certificates, program, certificate_references()),
    }


def _folder(
    folder: str, manifests: Manifests, program: Program | None = None, references: Manifest | None = None
) -> dict[str, str]:
    """Return a folder's files, with the kustomization that lists them.

    They are labelled as those of `program`, where there is one. `references` say where names stand that
    kustomize does not know of.
    """
    files: dict[str, str] = {}
    for name, content in manifests.items():
        several = content if isinstance(content, list) else [content]
        files[f"{folder}/{name}"] = yaml_stream(_labelled(each, program) for each in several)
    kustomization = _kustomization(list(manifests))
    if references is not None:
        kustomization["configurations"] = [_REFERENCES]
        files[f"{folder}/{_REFERENCES}"] = yaml_document(references)
    files[f"{folder}/{_KUSTOMIZATION}"] = yaml_document(kustomization)
    return files


def _labelled(manifest: Manifest, program: Program | None) -> Manifest:
    if program is None:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "labels": program.labels}}


def _kustomization(resources: list[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }
