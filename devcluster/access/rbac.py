"""Authorization decisions by roles and bindings (RBAC)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, Self

from devcluster.errors import StatusError, forbidden
from devcluster.http_call import User
from devcluster.quantity import quoted
from devcluster.storage.records import Change, Key
from devcluster.storage.store import Store

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Requested action on a resource, or on a server path such as `/metrics` if `path` is set.

    `verb` is `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or another
    verb of a role; for a path it is the HTTP method in lower case.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The result of an authorization: whether the action is allowed, and the reason."""

    allowed: bool
    reason: str = ""


def refusal(user: User, wanted: Attributes, decision: Decision | None = None) -> StatusError:
    """Build the 403 for an action that is not allowed."""
    detail = f"User {quoted(user.name)} cannot {wanted.verb} "
    if wanted.path:
        detail += f"path {quoted(wanted.path)}"
    else:
        resource = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
        where = f"in the namespace {quoted(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
        detail += f"resource {quoted(resource)} in API group {quoted(wanted.group)} {where}"
    detail = detail.translate(_MARKUP)
    if decision is not None and decision.reason:
        detail += f": {decision.reason}"
    if wanted.path:
        return StatusError(403, "Forbidden", f"forbidden: {detail}", details={})
    return forbidden(wanted.group, wanted.resource, wanted.name, detail)


_ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """PolicyRule of a role, in a form for fast checks."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: dict[str, Any]) -> Self:
        """Parse a rule of a role."""
        return cls(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, wanted: Attributes) -> bool:
        """Return whether the rule covers the action."""
        if wanted.verb not in self.verbs and _ANY not in self.verbs:
            return False
        if wanted.path:
            return any(_path_matches(path, wanted.path) for path in self.paths)
        return (
            (wanted.group in self.groups or _ANY in self.groups)
            and self._has_resource(wanted.resource, wanted.subresource)
            and (not self.names or wanted.name in self.names)
        )

    def parts(self) -> Iterator[Rule]:
        """Split the rule into parts: one verb and path, or one verb, group, resource and at most one name."""
        names: list[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, names):
            yield Rule(verbs=(verb,), groups=(group,), resources=(resource,), names=name)
        for path, verb in product(self.paths, self.verbs):
            yield Rule(verbs=(verb,), paths=(path,))

    def covers(self, part: Rule) -> bool:
        """Return whether the rule covers another rule, which must come from `parts`."""
        if not _has(self.verbs, part.verbs[0]):
            return False
        if part.paths:
            return any(_path_matches(path, part.paths[0]) for path in self.paths)
        resource, slash, subresource = part.resources[0].partition("/")
        return (
            _has(self.groups, part.groups[0])
            and (
                _has(self.resources, part.resources[0])
                or (bool(slash) and resource != _ANY and f"*/{subresource}" in self.resources)
            )
            and (not self.names or (bool(part.names) and part.names[0] in self.names))
        )

    def __str__(self) -> str:
        """Format the rule as Go prints it."""
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        shown = (f"{name}:[{' '.join(map(quoted, each))}]" for name, each in fields.items() if each)
        return f"{{{', '.join(shown)}}}"

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if _ANY in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def _has(these: tuple[str, ...], one: str) -> bool:
    return one in these or _ANY in these


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith(_ANY):
        return path.startswith(pattern.rstrip(_ANY))
    return pattern == path


_GROUP = "rbac.authorization.k8s.io"
_ALMIGHTY = "system:masters"
"""The group whose members may take every action, whatever roles say."""
_MOST_CACHED = 1000

_ALLOWED = Decision(allowed=True)


class _Grants(NamedTuple):
    """The rules that apply to one user in one namespace, each with the binding that grants it."""

    rules: list[tuple[Rule, str]]
    problem: str
    """Message about bindings whose roles do not exist."""


class _Binding(NamedTuple):
    """Subjects and role of one binding; the role's rules are read only when a subject matches a user."""

    subjects: list[dict[str, Any]]
    namespace: str
    role: dict[str, Any]
    head: str
    """The start of a decision's reason: the binding's kind and name."""


class RbacAuthorizer:
    """An authorizer that decides by the roles and bindings in the store.

    It caches its results until a role or a binding changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bindings: dict[str, list[_Binding]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], _Grants] = {}
        self._decisions: dict[tuple[str, tuple[str, ...], Attributes], Decision] = {}
        store.subscribe(self._forget)

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Decide whether `user` may take the action."""
        if _ALMIGHTY in user.groups:
            return _ALLOWED
        key = (user.name, user.groups, wanted)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _MOST_CACHED:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(user, wanted)
        return decision

    def _decide(self, user: User, wanted: Attributes) -> Decision:
        grants = self._grants_of(user, wanted.namespace)
        for rule, source in grants.rules:
            if rule.allows(wanted):
                return Decision(allowed=True, reason=f"RBAC: allowed by {source}")
        return Decision(allowed=False, reason=f"RBAC: {grants.problem}" if grants.problem else "")

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Return the user's rules in the namespace and the cluster, and a message about missing roles."""
        grants = self._grants_of(user, namespace)
        return [rule for rule, _ in grants.rules], grants.problem

    def _forget(self, change: Change) -> None:
        stored = change.new or change.old
        if stored is not None and stored.key.group == _GROUP:
            self._bindings.clear()
            self._grants.clear()
            self._decisions.clear()

    def _grants_of(self, user: User, namespace: str) -> _Grants:
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) >= _MOST_CACHED:
                self._grants.clear()
            grants = self._grants[key] = self._collect(user, namespace)
        return grants

    def _collect(self, user: User, namespace: str) -> _Grants:
        rules: list[tuple[Rule, str]] = []
        problems: dict[str, None] = {}
        bindings = self._bindings_in("")
        if namespace:
            bindings = bindings + self._bindings_in(namespace)
        for binding in bindings:
            subject = next((each for each in binding.subjects if _is(user, each, binding.namespace)), None)
            if subject is None:
                continue
            granted, problem = self.rules_of_role(binding.role, binding.namespace)
            if problem:
                problems[problem] = None
            source = binding.head + _described(subject, binding.namespace)
            rules += [(rule, source) for rule in granted]
        return _Grants(rules, f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems))

    def _bindings_in(self, namespace: str) -> list[_Binding]:
        """Return the RoleBindings in a namespace, or the ClusterRoleBindings if `namespace` is ""."""
        bindings = self._bindings.get(namespace)
        if bindings is None:
            bindings = self._bindings[namespace] = list(self._read_bindings(namespace))
        return bindings

    def _read_bindings(self, namespace: str) -> Iterator[_Binding]:
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        for stored in self._store.select(_GROUP, f"{kind.lower()}s", namespace):
            binding = stored.decode()
            role = binding["roleRef"]
            name = binding["metadata"]["name"]
            shown = f"{name}/{namespace}" if namespace else name
            head = f"{kind} {quoted(shown)} of {role['kind']} {quoted(role['name'])} to "
            yield _Binding(binding.get("subjects") or [], namespace, role, head)

    def rules_of_role(self, role: dict[str, Any], namespace: str) -> tuple[tuple[Rule, ...], str]:
        """Return the rules of the role in a binding's `roleRef`, or the reason why they are unknown."""
        kind, name = role["kind"], role["name"]
        plural = "roles" if kind == "Role" else "clusterroles"
        stored = self._store.get(Key(_GROUP, plural, namespace if kind == "Role" else "", name))
        if stored is None:
            return (), f"{kind.lower()}.{_GROUP} {quoted(name)} not found"
        return tuple(Rule.of(rule) for rule in stored.decode().get("rules") or ()), ""


def _is(user: User, subject: dict[str, Any], namespace: str) -> bool:
    """Return whether a binding's subject is the user; `namespace` is the binding's."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return bool(home) and user.name == f"system:serviceaccount:{home}:{name}"
    return False


def _described(subject: dict[str, Any], namespace: str) -> str:
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f"{subject['kind']} {quoted(name)}"
