"""RBAC rules of `config/rbac/` for tests, granted to users instead of service accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from manager.api.rights import RbacRule
from manager_tools.codegen.roles import merged_rules
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fault_proxy import Exchange

FOLDER = Path("config/rbac")
RBAC = "rbac.authorization.k8s.io"
MANAGER = ("role.yaml", "role_binding.yaml")
OWNER_REFERENCES = ("../owner-references/role.yaml", "../owner-references/role_binding.yaml")
LEADER_ELECTION = ("leader_election_role.yaml", "leader_election_role_binding.yaml")

Permission = tuple[str, str, str]
"""API group, resource or resource/subresource, and verb."""

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Roles:
    """RBAC roles of one user; the names of the roles begin with the user's name."""

    def __init__(self, plane: ControlPlane, user: str, namespace: str) -> None:
        self._plane = plane
        self._user = user
        self._namespace = namespace

    def grant(
        self, *files: str | Path, keep: Callable[[Permission], bool] = lambda permission: True
    ) -> set[Permission]:
        """Grant the user the rules in these files for which `keep` returns true.

        Returns the granted permissions.
        """
        texts = [(FOLDER / name).read_text() for name in files]
        manifests = [self._adapt(each) for text in texts for each in yaml.safe_load_all(text)]
        granted: dict[Permission, dict[str, list[str]]] = {}
        for manifest in manifests:
            if "rules" in manifest:
                permissions = [each for each in _permissions(manifest) if keep(each[0])]
                manifest["rules"] = [
                    {"apiGroups": [group], "resources": [resource], "verbs": [verb], **names}
                    for (group, resource, verb), names in permissions
                ]
                granted.update(dict(permissions))
        self._plane.api.apply(manifests)
        for permission, names in granted.items():
            # A grant takes effect only after the authorizer has seen it.
            eventually(lambda each=(permission, names): self._has(*each), every=0.02)
        return set(granted)

    def _has(self, permission: Permission, names: dict[str, list[str]]) -> bool:
        group, name, verb = permission
        resource, _, subresource = name.partition("/")
        attributes = {
            "namespace": self._namespace,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "verb": verb,
            "name": next(iter(names.get("resourceNames", ())), ""),
        }
        return is_allowed(self._plane, self._user, resourceAttributes=attributes)

    def _adapt(self, manifest: dict[str, Any]) -> dict[str, Any]:
        metadata = manifest["metadata"]
        metadata["name"] = self._name(metadata["name"])
        if "namespace" in metadata:
            metadata["namespace"] = self._namespace
        if "roleRef" in manifest:
            manifest["roleRef"]["name"] = self._name(manifest["roleRef"]["name"])
            manifest["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": self._user}]
        return manifest

    def _name(self, name: str) -> str:
        return f"{self._user}-{name}"


def grant_rules(
    plane: ControlPlane, user: str, rules: Iterable[RbacRule], *, namespace: str | None = None
) -> None:
    """Grant the user only these rules, in `namespace`, or in the whole cluster if `namespace` is None."""
    scope = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": user} if namespace is None else {"name": user, "namespace": namespace}
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    reference = {"apiGroup": RBAC, "kind": scope, "name": user}
    binding = {**head, "kind": f"{scope}Binding", "roleRef": reference, "subjects": [subject]}
    plane.api.apply([{**head, "kind": scope, "rules": merged_rules(rules)}, binding])


def is_allowed(plane: ControlPlane, user: str, **attributes: dict[str, str]) -> bool:
    """Return whether a SubjectAccessReview with these attributes allows the user's request."""
    body = {"spec": {"user": user, **attributes}}
    review = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(review["status"]["allowed"])


def _permissions(role: dict[str, Any]) -> Iterator[tuple[Permission, dict[str, list[str]]]]:
    for rule in role["rules"]:
        names = {"resourceNames": rule["resourceNames"]} if "resourceNames" in rule else {}
        assert rule.keys() == {"apiGroups", "resources", "verbs", *names}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield (group, resource, verb), names


def permission_for(exchange: Exchange) -> Permission | None:
    """Return the permission that a request needs; None for discovery and other paths open to every user."""
    match exchange.path.strip("/").split("/"):
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return None
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return None
    resource, named = "/".join([rest[0], *rest[2:]]), len(rest) > 1
    if exchange.method == "GET":
        return group, resource, "watch" if exchange.watch else "get" if named else "list"
    return group, resource, VERBS[exchange.method]
