"""Rules of roles: those of operators, merged into the fewest rules that say the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from manager.rights import RbacRule

__all__ = ["merged_rules"]

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
