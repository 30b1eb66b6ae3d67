"""Which files under `config/` are generated, named as kubebuilder names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from apis.meta import Resource
from manager.codegen.documents import yaml_document
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
    viewer_role,
)
from manager.rbac import RbacRule

__all__ = ["config_files"]

_KUSTOMIZATION = "kustomization.yaml"


def config_files(
    kinds: Sequence[type[Resource]], rules: Iterable[RbacRule], samples: Iterable[str]
) -> dict[str, str]:
    """Return the text of each generated file by its path under `config/`.

    `samples` are the names of the hand-written files in `config/samples/`. Raises ModelError as
    `custom_resource_definitions` does.
    """
    return {
        **_folder("crd", {f"bases/{_crd_file(crd)}": crd for crd in custom_resource_definitions(kinds)}),
        **_folder("rbac", _rbac(kinds, rules)),
        f"samples/{_KUSTOMIZATION}": yaml_document(_kustomization(sorted(samples))),
    }


def _crd_file(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _rbac(kinds: Sequence[type[Resource]], rules: Iterable[RbacRule]) -> dict[str, dict[str, Any]]:
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
    }
    for kind in kinds:
        name = kind.gvk.kind.lower()
        files[f"{name}_admin_role.yaml"] = admin_role(kind)
        files[f"{name}_editor_role.yaml"] = editor_role(kind)
        files[f"{name}_viewer_role.yaml"] = viewer_role(kind)
    return files


def _folder(folder: str, manifests: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return a folder's files, with the kustomization that lists them."""
    files = {f"{folder}/{name}": yaml_document(manifest) for name, manifest in manifests.items()}
    files[f"{folder}/{_KUSTOMIZATION}"] = yaml_document(_kustomization(list(manifests)))
    return files


def _kustomization(resources: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }
