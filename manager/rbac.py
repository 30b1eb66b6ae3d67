"""What a controller may do on the server, said beside the code that does it.

    @rbac(groups="cache.example.com", resources="memcacheds", verbs="list;watch")
    @rbac(groups="apps", resources="deployments", verbs="get;list;watch;create;patch")
    class MemcachedReconciler: ...

The roles in `config/rbac/` are generated from these markers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["RbacRule", "rbac", "rbac_rules"]

T = TypeVar("T")

_ATTRIBUTE = "__rbac_rules__"


@dataclass(frozen=True, slots=True)
class RbacRule:
    """One rule of a role: these verbs on these resources of these API groups.

    `resource_names` limits the rule to objects of these names; empty means any. `owner_references` is of a
    rule that is needed only where the admission plugin OwnerReferencesPermissionEnforcement is on: to give
    something an owner, and with it an end, then takes the right to delete it.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    owner_references: bool = False


def rbac(
    *, groups: str, resources: str, verbs: str, resource_names: str = "", owner_references: bool = False
) -> Callable[[type[T]], type[T]]:
    """Mark a reconciler with what it needs; several values are separated by `;`, the core group is "".

    A subresource is named as in `memcacheds/status`. Rules with `owner_references`, of which `RbacRule` says
    more, make a role of their own, which is not installed unless asked for.
    """
    rule = RbacRule(
        groups=tuple(groups.split(";")),
        resources=_values(resources, "resources"),
        verbs=_values(verbs, "verbs"),
        resource_names=tuple(resource_names.split(";")) if resource_names else (),
        owner_references=owner_references,
    )

    def mark(reconciler: type[T]) -> type[T]:
        # Decorators apply from the last to the first: the rules keep the order they are written in.
        setattr(reconciler, _ATTRIBUTE, (rule, *rbac_rules(reconciler)))
        return reconciler

    return mark


def rbac_rules(reconciler: type) -> tuple[RbacRule, ...]:
    """Return the rules that a class is marked with, those of its bases included."""
    rules: tuple[RbacRule, ...] = getattr(reconciler, _ATTRIBUTE, ())
    return rules


def _values(text: str, parameter: str) -> tuple[str, ...]:
    values = tuple(text.split(";"))
    if not all(values):
        raise ValueError(f"{parameter} has an empty value: {text!r}")
    return values
