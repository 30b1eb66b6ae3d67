"""Role-based access control, by the roles and bindings in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from devcluster.access.attributes import Attributes, Decision, quoted
from devcluster.access.rules import Rule
from devcluster.storage.records import Change, Key

if TYPE_CHECKING:
    from devcluster.http_call import User
    from devcluster.storage.store import Store

__all__ = ["RbacAuthorizer"]

_GROUP = "rbac.authorization.k8s.io"
_ALMIGHTY = "system:masters"
"""The group that no role is asked for."""
_MOST_CACHED = 1000

_ALLOWED = Decision(allowed=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Grants:
    """The rules that apply to one user in one namespace, each with the binding that grants it."""

    rules: tuple[tuple[Rule, str], ...]
    problems: tuple[str, ...]
    """Bindings whose role could not be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Binding:
    """A binding's subjects and role; the role is read when a user first matches, as few do."""

    subjects: tuple[dict[str, Any], ...]
    namespace: str
    role: dict[str, Any]
    describe: Callable[[dict[str, Any]], str]


class RbacAuthorizer:
    """An authorizer that decides by the roles and bindings in the store.

    It caches its results until one of those objects changes.
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
        problems = _joined(grants.problems)
        return Decision(allowed=False, reason=f"RBAC: {problems}" if problems else "")

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Return the user's rules in the namespace and the cluster, and a text about unreadable bindings."""
        grants = self._grants_of(user, namespace)
        return [rule for rule, _ in grants.rules], _joined(grants.problems)

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
        problems: list[str] = []
        bindings = self._bindings_in("")
        if namespace:
            bindings = bindings + self._bindings_in(namespace)
        for binding in bindings:
            subject = next((each for each in binding.subjects if _is(user, each, binding.namespace)), None)
            if subject is None:
                continue
            granted, problem = self.rules_of_role(binding.role, binding.namespace)
            if problem:
                problems.append(problem)
            source = binding.describe(subject)
            rules += [(rule, source) for rule in granted]
        return _Grants(tuple(rules), tuple(dict.fromkeys(problems)))

    def _bindings_in(self, namespace: str) -> list[_Binding]:
        """Return the RoleBindings of a namespace; the ClusterRoleBindings for ""."""
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
            yield _Binding(
                tuple(binding.get("subjects") or ()),
                namespace,
                role,
                lambda subject, head=head: head + _described(subject, namespace),  # type: ignore[misc]
            )

    def rules_of_role(self, role: dict[str, Any], namespace: str) -> tuple[tuple[Rule, ...], str]:
        """Return the rules of the role in a binding's `roleRef`, or the reason why they are unknown."""
        kind, name = role["kind"], role["name"]
        plural = "roles" if kind == "Role" else "clusterroles"
        stored = self._store.get(Key(_GROUP, plural, namespace if kind == "Role" else "", name))
        if stored is None:
            return (), f"{kind.lower()}.{_GROUP} {quoted(name)} not found"
        return tuple(Rule.of(rule) for rule in stored.decode().get("rules") or ()), ""


def _is(user: User, subject: dict[str, Any], namespace: str) -> bool:
    """Return whether a subject of a binding in `namespace` is the user."""
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


def _joined(problems: tuple[str, ...]) -> str:
    return f"[{', '.join(problems)}]" if len(problems) > 1 else "".join(problems)
