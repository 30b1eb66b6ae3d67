"""The roles of the manager, and of the people who use its kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from manager.api import Resource, crd_options
from manager.certificates import injection_rights, secret_rights
from manager.migration.permission import migration_rights
from manager.rights import RbacRule

_Values = tuple[str, ...]


def merged_rules(rules: Iterable[RbacRule]) -> list[dict[str, Any]]:
    """Return the rules of a role that grants what `rules` grant, and nothing more, in a stable order.

    Rules on the same resources join their verbs; then resources with the same verbs join, then groups.
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
_API_VERSION = f"{_API}/v1"
# Replaced by kustomize, together with a prefix to the names, where the whole is put together.
_NAMESPACE = "system"

_MANAGER = "manager-role"
_LEADER_ELECTION = "leader-election-role"
_METRICS_AUTH = "metrics-auth-role"
_METRICS_READER = "metrics-reader"
_OWNER_REFERENCES = "owner-references-role"
_STORAGE_MIGRATION = "storage-migration-role"
_WEBHOOK_CERTIFICATE = "webhook-certificate-role"
_WEBHOOK_INJECTION = "webhook-injection-role"
_SERVICE_ACCOUNT = "controller-manager"

# What asking the API server about others takes. Neither kind has a namespace, and nothing of them is kept.
_REVIEWS = (
    RbacRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    RbacRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")


def manager_role(rules: Iterable[RbacRule]) -> Manifest:
    """Return the cluster role with what all controllers need, whichever admission plugins are on."""
    return _role("ClusterRole", _MANAGER, [rule for rule in rules if not rule.owner_references])


def owner_references_access(rules: Iterable[RbacRule]) -> tuple[Manifest, Manifest]:
    """Return the cluster role, and its binding, with what that admission plugin asks for besides."""
    role = _role("ClusterRole", _OWNER_REFERENCES, [rule for rule in rules if rule.owner_references])
    return role, _binding("ClusterRole", _OWNER_REFERENCES)


def operator_access(lease: str, rules: Iterable[RbacRule]) -> list[Manifest]:
    """Return the account of a manager that runs one operator alone, its roles, and what binds them to it.

    `lease` is the name of its own.
    """
    roles = [manager_role(rules), leader_election_role(lease), metrics_auth_role()]
    return [service_account(), *roles, *role_bindings()]


def leader_election_role(lease: str) -> Manifest:
    """Return the role for the namespace that holds the Lease of that name."""
    api, leases = ("coordination.k8s.io",), ("leases",)
    # `create` cannot be limited to a name.
    rules = [RbacRule(api, leases, ("create",)), RbacRule(api, leases, ("get", "update", "watch"), (lease,))]
    return _role("Role", _LEADER_ELECTION, rules)


def metrics_auth_role() -> Manifest:
    """Return the cluster role with which the manager finds out who may see its metrics."""
    return _role("ClusterRole", _METRICS_AUTH, _REVIEWS)


def metrics_reader_role() -> Manifest:
    """Return the cluster role for who is to see the metrics, such as Prometheus; it is bound to nobody."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": _metadata("ClusterRole", _METRICS_READER),
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }


def webhook_certificate_role() -> Manifest:
    """Return the role for the namespace that holds the Secret with the webhooks' certificate."""
    return _role("Role", _WEBHOOK_CERTIFICATE, secret_rights(""))


def webhook_injection_role(definitions: Iterable[str]) -> Manifest:
    """Return the cluster role with which the manager tells the API server whom to trust.

    `definitions` are the names of the definitions whose objects a webhook converts.
    """
    return _role("ClusterRole", _WEBHOOK_INJECTION, injection_rights("", definitions))


def storage_migration_role(kinds: Iterable[type[Resource]]) -> Manifest:
    """Return the cluster role for `migrate-storage`; it is bound to nobody."""
    return _role("ClusterRole", _STORAGE_MIGRATION, migration_rights(kinds))


def admin_role(kind: type[Resource]) -> Manifest:
    """Return the cluster role for people who may do anything with objects of a kind."""
    rules = [_on(kind, "", ("*",)), _on(kind, "/status", ("get",))]
    if crd_options(kind).scale is not None:
        rules.append(_on(kind, "/scale", ("get", "update", "patch")))
    return _role("ClusterRole", f"{kind.gvk.kind.lower()}-admin-role", rules)


def editor_role(kind: type[Resource]) -> Manifest:
    """Return the cluster role for people who create, change and scale objects of a kind."""
    rules = [_on(kind, "", (*_READ, *_WRITE)), _on(kind, "/status", ("get",))]
    if crd_options(kind).scale is not None:
        rules.append(_on(kind, "/scale", ("get", "update", "patch")))
    return _role("ClusterRole", f"{kind.gvk.kind.lower()}-editor-role", rules)


def viewer_role(kind: type[Resource]) -> Manifest:
    """Return the cluster role for people who look at objects of a kind."""
    rules = [_on(kind, "", _READ), _on(kind, "/status", ("get",))]
    return _role("ClusterRole", f"{kind.gvk.kind.lower()}-viewer-role", rules)


def service_account() -> Manifest:
    """Return the account that the manager runs under in the cluster."""
    metadata = {"name": _SERVICE_ACCOUNT, "namespace": _NAMESPACE}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def role_bindings() -> tuple[Manifest, Manifest, Manifest]:
    """Return what gives the service account its roles: the manager's, for leader election, for metrics."""
    return (
        _binding("ClusterRole", _MANAGER),
        _binding("Role", _LEADER_ELECTION),
        _binding("ClusterRole", _METRICS_AUTH),
    )


def webhook_role_bindings() -> tuple[Manifest, Manifest]:
    """Return what gives the service account the roles for certificates: for the Secret, for injection."""
    return _binding("Role", _WEBHOOK_CERTIFICATE), _binding("ClusterRole", _WEBHOOK_INJECTION)


def _on(kind: type[Resource], subresource: str, verbs: tuple[str, ...]) -> RbacRule:
    return RbacRule((kind.gvk.group,), (kind.plural + subresource,), verbs)


def _role(role: str, name: str, rules: Iterable[RbacRule]) -> Manifest:
    return {
        "apiVersion": _API_VERSION,
        "kind": role,
        "metadata": _metadata(role, name),
        "rules": merged_rules(rules),
    }


def _binding(role: str, name: str) -> Manifest:
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{role}Binding",
        "metadata": _metadata(role, f"{name}binding"),
        "roleRef": {"apiGroup": _API, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": _SERVICE_ACCOUNT, "namespace": _NAMESPACE}],
    }


def _metadata(role: str, name: str) -> Manifest:
    place = {} if role == "ClusterRole" else {"namespace": _NAMESPACE}
    return {"name": name, **place}
