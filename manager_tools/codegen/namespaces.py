"""Restriction of a manager's manifests to some namespaces: Roles replace its ClusterRole.

`make deploy` of a project pipes its manifests through this module: `python -m MODULE team-a,team-b`.
"""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from manager.util.yaml_text import yaml_documents
from manager_kinds.manifests import yaml_stream

Manifest = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
# The ClusterRole of all operators, or the ClusterRoles of each operator, whose name is at the end.
_OPERATOR = r"(-[-.a-z0-9]+)?$"
_ROLE = re.compile(rf"(manager|owner-references|console-reading)-role{_OPERATOR}")
_MANAGER = re.compile(rf"controller-manager{_OPERATOR}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


class LimitedAlready(Exception):
    """An error: the manifests are already limited to some namespaces, which the message names."""


def limited_to(namespaces: Sequence[str], manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the manifests with the manager's watches and rights restricted to `namespaces`.

    The namespaces must exist. ClusterRoles for other purposes stay, such as the role for TokenReviews. The
    API server calls the webhooks for objects in these namespaces only. Conversion cannot be limited to
    namespaces.

    Raises:
        LimitedAlready: the manifests are already restricted.
    """
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "ClusterRole" and _ROLE.search(name):
            for namespace in namespaces:
                yield {
                    **manifest,
                    "kind": "Role",
                    "metadata": {**manifest["metadata"], "namespace": namespace},
                }
        elif kind == "ClusterRoleBinding" and _ROLE.search(manifest["roleRef"]["name"]):
            for namespace in namespaces:
                yield {
                    **manifest,
                    "kind": "RoleBinding",
                    "metadata": {**manifest["metadata"], "namespace": namespace},
                    "roleRef": {**manifest["roleRef"], "apiGroup": _RBAC, "kind": "Role"},
                }
        elif kind == "Deployment" and _MANAGER.search(name):
            yield _watching(namespaces, manifest)
        elif kind in _WEBHOOKS:
            yield {**manifest, "webhooks": [_scoped(namespaces, each) for each in manifest["webhooks"]]}
        else:
            yield manifest


def _watching(namespaces: Sequence[str], deployment: Manifest) -> Manifest:
    changed: Manifest = copy.deepcopy(deployment)
    (container,) = changed["spec"]["template"]["spec"]["containers"]
    given = [each for each in container["args"] if each.startswith("--namespaces=")]
    if given:
        raise LimitedAlready(
            f"the overlay has roles for namespaces of its own ({given[0]}): edit it, or take another one"
        )
    container["args"].append(f"--namespaces={','.join(namespaces)}")
    return changed


def _scoped(namespaces: Sequence[str], webhook: Manifest) -> Manifest:
    within = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    chosen = webhook.get("namespaceSelector") or {}
    expressions = [*chosen.get("matchExpressions", ()), within]
    return {**webhook, "namespaceSelector": {**chosen, "matchExpressions": expressions}}


def main(argument: str) -> int:
    """Print the manifests from standard input, limited to the namespaces; return the exit code."""
    names = argument.split(",")
    if not all(map(_NAMESPACE.fullmatch, names)):
        told = f"NAMESPACES={argument}: names of namespaces, separated by commas, are expected"
        print(told, file=sys.stderr)
        return 2
    try:
        print(yaml_stream(limited_to(names, yaml_documents(sys.stdin.read()))), end="")
    except LimitedAlready as error:
        print(f"NAMESPACES={argument}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
