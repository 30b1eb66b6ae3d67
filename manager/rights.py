"""What an operator may do on the server beyond what follows from its declaration.

    class MemcachedOperator(Operator[Memcached]):
        rights = (rbac(groups="", resources="configmaps", verbs="get;create"),)

The roles in `config/rbac/` are generated from both.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RbacRule", "rbac"]


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
) -> RbacRule:
    """Return a rule; several values are separated by `;`, the core group is "".

    A subresource is named as in `memcacheds/status`. Rules with `owner_references`, of which `RbacRule` says
    more, make a role of their own, which is not installed unless asked for.
    """
    return RbacRule(
        groups=tuple(groups.split(";")),
        resources=_values(resources, "resources"),
        verbs=_values(verbs, "verbs"),
        resource_names=tuple(resource_names.split(";")) if resource_names else (),
        owner_references=owner_references,
    )


def _values(text: str, parameter: str) -> tuple[str, ...]:
    values = tuple(text.split(";"))
    if not all(values):
        raise ValueError(f"{parameter} has an empty value: {text!r}")
    return values
