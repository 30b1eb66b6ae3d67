"""Protection against privilege escalation: checks for writes of roles and bindings beyond plain RBAC."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from devcluster.access.attributes import Attributes, quoted
from devcluster.access.rbac import Rule
from devcluster.errors import StatusError, forbidden, not_found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.api.interfaces import AdmissionInfo, Authorizer

__all__ = ["Escalation"]

_GROUP = "rbac.authorization.k8s.io"
_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_ALMIGHTY = "system:masters"
_FULL = (
    Rule(verbs=("*",), groups=("*",), resources=("*",)),
    Rule(verbs=("*",), paths=("*",)),
)
_NOT_GRANTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
"""Metadata that may change although the rest is more than its writer may do."""


class Escalation:
    """A check that refuses roles and bindings beyond the writer's rights, except by `escalate` or `bind`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def concerns(self, info: AdmissionInfo) -> bool:
        """Return whether the write can grant rights."""
        return (
            info.resource.group == _GROUP
            and info.obj is not None
            and info.operation in ("CREATE", "UPDATE")
            and info.resource.plural in (*_ROLES, *_BINDINGS)
            and _ALMIGHTY not in info.user.groups
        )

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError if the write would grant rights that the user lacks."""
        obj, old = info.obj, info.old
        if not self.concerns(info) or obj is None or (old is not None and _granted(obj) == _granted(old)):
            return
        if info.resource.plural in _BINDINGS:
            role = obj["roleRef"]
            plural = "roles" if role["kind"] == "Role" else "clusterroles"
            if self._may(info, "bind", plural, role["name"]):
                return
            rules, problem = self._authorizer.rules_of_role(role, info.namespace)
            if problem:
                raise not_found(_GROUP, info.resource.plural, role["name"])
            self._confirm(info, rules)
        elif not self._may(info, "escalate", info.resource.plural, info.name if old is not None else ""):
            self._confirm(info, map(Rule.of, obj.get("rules") or ()))
            if obj.get("aggregationRule") or (old or {}).get("aggregationRule"):
                why = "must have cluster-admin privileges to use the aggregationRule"
                self._confirm(info, _FULL, otherwise=why)

    def _may(self, info: AdmissionInfo, verb: str, plural: str, name: str) -> bool:
        wanted = Attributes(
            verb=verb, group=_GROUP, version="*", resource=plural, namespace=info.namespace, name=name
        )
        return self._authorizer.authorize(info.user, wanted).allowed

    def _confirm(self, info: AdmissionInfo, rules: Iterable[Rule], otherwise: str = "") -> None:
        held, problem = self._authorizer.rules_of(info.user, info.namespace)
        missing = [
            part for rule in rules for part in rule.parts() if not any(each.covers(part) for each in held)
        ]
        if not missing:
            return
        groups = " ".join(map(quoted, info.user.groups))
        why = (
            f"user {quoted(info.user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not "
            "currently held:\n" + "\n".join(sorted({str(each) for each in _compact(missing)}))
        )
        if problem:
            why += f"; resolution errors: [{problem}]"
        raise _refusal(info, otherwise or why)


def _granted(obj: dict[str, Any]) -> dict[str, Any]:
    compared = copy.copy(obj)
    compared["metadata"] = {
        name: value for name, value in obj["metadata"].items() if name not in _NOT_GRANTED
    }
    return compared


def _compact(parts: Iterable[Rule]) -> Iterable[Rule]:
    """Merge rules for the same resource into one rule with all their verbs."""
    verbs: dict[tuple[object, ...], tuple[Rule, list[str]]] = {}
    for part in parts:
        of = (part.groups, part.resources, part.names, part.paths, part.paths and part.verbs)
        verbs.setdefault(of, (part, []))[1].extend(part.verbs)
    for part, wanted in verbs.values():
        yield part.with_verbs(wanted)


def _refusal(info: AdmissionInfo, why: str) -> StatusError:
    return forbidden(info.resource.group, info.resource.plural, info.name, why)
