"""Roles and their bindings."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, PlainStrategy, StoredStrategy, columns
from devcluster.builtin.checks import texts
from devcluster.builtin.fields import child
from devcluster.errors import FieldError, field_invalid, field_required, field_unsupported
from devcluster.names import dns_subdomain, path_segment

if TYPE_CHECKING:
    from devcluster.clock import Clock
    from devcluster.kinds.strategy import Context

__all__ = ["BindingStrategy", "RoleStrategy"]

GROUP = "rbac.authorization.k8s.io"
KINDS = ("ServiceAccount", "User", "Group")


class RoleStrategy(PlainStrategy):
    """The rules of roles; `namespaced` ones are about resources alone."""

    name_rule = staticmethod(path_segment)
    create_on_update = True

    def __init__(self, clock: Clock, *, namespaced: bool) -> None:
        """Set up the strategy; `namespaced` means Role, else ClusterRole."""
        super().__init__(clock)
        self._namespaced = namespaced

    def default(self, obj: Object) -> None:
        """Set the rules, which a role always has."""
        obj.setdefault("rules", None)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the verbs and the resources or paths of each rule."""
        wrong: list[FieldError] = []
        for index, rule in enumerate(new.get("rules") or ()):
            wrong += _rule(rule, f"rules[{index}]", namespaced=self._namespaced)
        return wrong


class BindingStrategy(StoredStrategy):
    """The rules of bindings; a `namespaced` one may bind a role of either kind."""

    columns = columns("Name | Role | Age | Users* | Groups* | ServiceAccounts*")
    name_rule = staticmethod(path_segment)
    create_on_update = True

    def __init__(self, clock: Clock, *, namespaced: bool) -> None:
        """Set up the strategy; `namespaced` means RoleBinding, else ClusterRoleBinding."""
        super().__init__(clock)
        self._roles = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def default(self, obj: Object) -> None:
        """Set the API groups of the role, and of users and groups."""
        role = child(obj, "roleRef")
        if not role.get("apiGroup"):
            role["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the role reference and the subjects."""
        role = new["roleRef"]
        wrong: list[FieldError] = []
        if role["apiGroup"] != GROUP:
            wrong.append(field_unsupported("roleRef.apiGroup", role["apiGroup"], (GROUP,)))
        if role.get("kind", "") not in self._roles:
            wrong.append(field_unsupported("roleRef.kind", role.get("kind", ""), self._roles))
        name = role.get("name", "")
        wrong += texts(path_segment(name), "roleRef.name", name) if name else [field_required("roleRef.name")]
        namespaced = len(self._roles) > 1
        for index, subject in enumerate(new.get("subjects") or ()):
            wrong += _subject(subject, f"subjects[{index}]", namespaced=namespaced)
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the binding, and that its role is unchanged."""
        wrong = self.validate_create(new, context)
        role, before = new["roleRef"], old.get("roleRef")
        if role != before:
            shown = {
                "APIGroup": role["apiGroup"],
                "Kind": role.get("kind", ""),
                "Name": role.get("name", ""),
            }
            wrong.append(field_invalid("roleRef", shown, "cannot change roleRef"))
        return wrong

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the role and its subjects."""
        role = obj.get("roleRef") or {}
        subjects = obj.get("subjects") or ()
        accounts = [
            f"{each.get('namespace', '')}/{each.get('name', '')}"
            for each in subjects
            if each.get("kind") == "ServiceAccount"
        ]
        people = [
            ", ".join(each.get("name", "") for each in subjects if each.get("kind") == kind)
            for kind in ("User", "Group")
        ]
        shown = f"{role.get('kind', '')}/{role.get('name', '')}"
        return [obj["metadata"].get("name", ""), shown, self.created(obj), *people, ", ".join(accounts)]


def _rule(rule: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    if not rule.get("verbs"):
        wrong.append(field_required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            wrong.append(field_invalid(f"{path}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            wrong.append(field_invalid(f"{path}.nonResourceURLs", urls, text))
        return wrong
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        wrong.append(field_required(f"{path}.apiGroups", text))
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        wrong.append(field_required(f"{path}.resources", text))
    return wrong


def _subject(subject: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        wrong.append(field_required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            wrong += texts(dns_subdomain(name), f"{path}.name", name)
        if group:
            wrong.append(field_unsupported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            wrong.append(field_required(f"{path}.namespace"))
    elif kind in {"User", "Group"}:
        if group != GROUP:
            wrong.append(field_unsupported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        wrong.append(field_unsupported(f"{path}.kind", kind, KINDS))
    return wrong
