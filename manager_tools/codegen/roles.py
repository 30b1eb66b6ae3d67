"""Generation of the roles for the manager, and for the users of its kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from manager.api import Resource, crd_options
from manager.api.rights import RbacRule
from manager.webhook.configurations import MUTATING, SECRET, VALIDATING
from manager_tools.migration.definitions import migration_rights

_Values = tuple[str, ...]


def merged_rules(rules: Iterable[RbacRule]) -> list[dict[str, Any]]:
    """Merge rules; return rules that grant exactly what `rules` grant, in a stable order.

    The steps merge verbs of a resource, resources with equal verbs, groups with equal resources and verbs.
    """
    verbs: dict[tuple[str, str, _Values], set[str]] = defaultdict(set)
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                verbs[group, resource, tuple(sorted(rule.resource_names))].update(rule.verbs)

    resources: dict[tuple[str, _Values, _Values], set[str]] = defaultdict(set)
    for (group, resource, names), allowed in verbs.items():
        resources[group, names, ("*",) if "*" in allowed else tuple(sorted(allowed))].add(resource)

    groups: dict[tuple[_Values, _Values, _Values], set[str]] = defaultdict(set)
    for (group, names, allowed_verbs), named in resources.items():
        groups[tuple(sorted(named)), names, allowed_verbs].add(group)

    return sorted(
        (_rule(tuple(sorted(members)), *rest) for rest, members in groups.items()),
        key=lambda rule: (rule["apiGroups"], rule["resources"], rule.get("resourceNames", [])),
    )


def _rule(groups: _Values, resources: _Values, names: _Values, verbs: _Values) -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": list(groups), "resources": list(resources)}
    if names:
        rule["resourceNames"] = list(names)
    rule["verbs"] = list(verbs)
    return rule


Manifest = dict[str, Any]

_API = "rbac.authorization.k8s.io"
# The namespace's name, which kustomize replaces when it also adds a prefix to all names.
_NAMESPACE = "system"
_SERVICE_ACCOUNT = "controller-manager"
_OF_CONTROLLERS = "manager-role"

# Rights to create TokenReviews and SubjectAccessReviews: cluster-scoped kinds that are never stored.
_REVIEWS = (
    RbacRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    RbacRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
_LEASES = ("coordination.k8s.io",), ("leases",)
_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")

Roles = dict[str, Manifest]
"""Roles and related objects, by file name."""


def running(lease: str, rules: Iterable[RbacRule]) -> Roles:
    """Return the account and roles of a manager that needs `rules`, except rules with `owner_references`.

    The account is bound to three roles: the ClusterRole with the controllers' rights; a Role in the manager's
    namespace for the Lease; and a ClusterRole for checking who may read its metrics.
    """
    metadata = {"name": _SERVICE_ACCOUNT, "namespace": _NAMESPACE}
    # RBAC cannot limit `create` to a name.
    leases = (RbacRule(*_LEASES, ("create",)), RbacRule(*_LEASES, ("get", "update", "watch"), (lease,)))
    return {
        "service_account.yaml": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        **_bound(
            "role", "ClusterRole", _OF_CONTROLLERS, (each for each in rules if not each.owner_references)
        ),
        **_bound("leader_election_role", "Role", "leader-election-role", leases),
        **_bound("metrics_auth_role", "ClusterRole", "metrics-auth-role", _REVIEWS),
    }


def of_manager(lease: str, rules: Iterable[RbacRule], converted: Iterable[str] | None = None) -> Roles:
    """Return all roles that are bound to the manager's account.

    These are the roles of `running` and, unless `converted` is None, also those of `of_webhooks(converted)`.
    """
    return running(lease, rules) | ({} if converted is None else of_webhooks(converted))


def owner_references(rules: Iterable[RbacRule]) -> Roles:
    """Return the ClusterRole and binding for OwnerReferencesPermissionEnforcement, an admission plugin."""
    asked = (rule for rule in rules if rule.owner_references)
    return _bound("role", "ClusterRole", "owner-references-role", asked)


def of_webhooks(converted: Iterable[str], *, prefix: str = "") -> Roles:
    """Return the roles, and their bindings, for the webhooks' certificate.

    One role is for the Secret in the manager's namespace; with the other role, the manager writes its CA
    bundle to the webhook configurations. `converted` has the names of the CustomResourceDefinitions with a
    conversion webhook, `prefix` is the name prefix of Secret and configurations.
    """
    told = injection_rights(prefix, converted)
    return {
        **_bound("webhook_certificate_role", "Role", "webhook-certificate-role", secret_rights(prefix)),
        **_bound("webhook_injection_role", "ClusterRole", "webhook-injection-role", told),
    }


def of_shards() -> Roles:
    """Return the role, and its binding, for managers with `--shards`.

    Such managers need a Lease for each shard and one for each replica. The replicas' names are not known in
    advance.
    """
    leases = RbacRule(*_LEASES, ("create", "delete", "get", "list", "update", "watch"))
    return _bound("shards_role", "Role", "shards-role", (leases,))


def installed(roles: Roles, *, namespace: str, prefix: str = "") -> list[Manifest]:
    """Return roles as kustomize installs them: names with `prefix`, the account in `namespace`."""
    return [_placed(each, namespace, prefix) for each in roles.values()]


def account_of(manifests: Iterable[Manifest]) -> tuple[str, str]:
    """Return namespace and name of the ServiceAccount among installed manifests."""
    [account] = (each["metadata"] for each in manifests if each["kind"] == "ServiceAccount")
    return account["namespace"], account["name"]


def _placed(manifest: Manifest, namespace: str, prefix: str) -> Manifest:
    metadata = {**manifest["metadata"], "name": f"{prefix}{manifest['metadata']['name']}"}
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    placed = {**manifest, "metadata": metadata}
    if "roleRef" in manifest:
        role = manifest["roleRef"]
        placed["roleRef"] = {**role, "name": f"{prefix}{role['name']}"}
        placed["subjects"] = [
            {**each, "name": f"{prefix}{each['name']}", "namespace": namespace}
            for each in manifest["subjects"]
        ]
    return placed


def of_people(kinds: Iterable[type[Resource]]) -> Roles:
    """Return the ClusterRoles for users; no account is bound to them yet.

    There is one for readers of the metrics, such as Prometheus, one for `migrate-storage`, and three for
    users of each kind: for all operations, to create, change, scale and delete objects, and to view them.
    """
    kinds = tuple(kinds)
    metrics = _role("ClusterRole", "metrics-reader", ())
    metrics["rules"] = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    roles = {
        "metrics_reader_role.yaml": metrics,
        "storage_migration_role.yaml": _role(
            "ClusterRole", "storage-migration-role", migration_rights(kinds)
        ),
    }
    for kind in kinds:
        group, name = (kind.gvk.group,), kind.gvk.kind.lower()
        for who, verbs in (("admin", ("*",)), ("editor", (*_READ, *_WRITE)), ("viewer", _READ)):
            rules = [
                RbacRule(group, (kind.plural,), verbs),
                RbacRule(group, (f"{kind.plural}/status",), ("get",)),
            ]
            if who != "viewer" and crd_options(kind).scale is not None:
                rules.append(RbacRule(group, (f"{kind.plural}/scale",), ("get", "update", "patch")))
            roles[f"{name}_{who}_role.yaml"] = _role("ClusterRole", f"{name}-{who}-role", rules)
    return roles


def _role(role: str, name: str, rules: Iterable[RbacRule]) -> Manifest:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": role,
        "metadata": _metadata(role, name),
        "rules": merged_rules(rules),
    }


def _bound(file: str, role: str, name: str, rules: Iterable[RbacRule]) -> Roles:
    binding = {
        "apiVersion": f"{_API}/v1",
        "kind": f"{role}Binding",
        "metadata": _metadata(role, f"{name}binding"),
        "roleRef": {"apiGroup": _API, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": _SERVICE_ACCOUNT, "namespace": _NAMESPACE}],
    }
    return {f"{file}.yaml": _role(role, name, rules), f"{file}_binding.yaml": binding}


def _metadata(role: str, name: str) -> Manifest:
    return {"name": name, **({} if role == "ClusterRole" else {"namespace": _NAMESPACE})}


def secret_rights(prefix: str) -> tuple[RbacRule, ...]:
    """Return the rules for the webhooks' certificate Secret, whose name begins with `prefix`."""
    return (
        RbacRule(("",), ("secrets",), ("get", "update"), (f"{prefix}{SECRET}",)),
        RbacRule(("",), ("secrets",), ("create",)),
    )


def injection_rights(prefix: str, definitions: Iterable[str]) -> tuple[RbacRule, ...]:
    """Return the cluster-wide rules for reading webhook configurations and CRDs and setting their CA bundle.

    `prefix` is the prefix of the configurations' names, `definitions` has the names of the CRDs with a
    conversion webhook, such as "pets.petstore.example.com".
    """
    api = "admissionregistration.k8s.io"
    rules = [
        RbacRule((api,), ("mutatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{MUTATING}",)),
        RbacRule((api,), ("validatingwebhookconfigurations",), ("get", "patch"), (f"{prefix}{VALIDATING}",)),
    ]
    if names := tuple(sorted(definitions)):
        kinds = ("customresourcedefinitions",)
        rules.append(RbacRule(("apiextensions.k8s.io",), kinds, ("get", "patch"), names))
    return tuple(rules)
