"""Rights on the API server that an operator needs beyond those that declarations such as `owns` grant.

    class MemcachedOperator(Operator[Memcached]):
        rights = (rbac(groups="", resources="configmaps", verbs="get;create"),)

The roles in `config/rbac/` contain all of these rights.
"""

from __future__ import annotations

from dataclasses import dataclass

_DECLARATIONS = {"reads": ("list", "watch"), "owns": ("get", "create", "patch", "delete")}
"""The verbs for which advice names each declaration; `owns` also grants those of `reads`."""


class Undeclared(TypeError):
    """The error for an undeclared action of an operator; the message names the missing declaration."""


@dataclass(frozen=True, slots=True)
class RbacRule:
    """A rule of a role: these verbs on these resources of these API groups.

    `resource_names` limits the rule to objects with these names; empty means any. `owner_references` marks a
    rule that only the admission plugin OwnerReferencesPermissionEnforcement needs. With this plugin, a client
    that sets the owners of an object needs the right to delete that object.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    owner_references: bool = False


def rbac(
    *, groups: str, resources: str, verbs: str, resource_names: str = "", owner_references: bool = False
) -> RbacRule:
    """Return a rule; separate several values with `;`. The core group is "".

    A subresource is written like `memcacheds/status`. Rules with `owner_references` (see `RbacRule`) form a
    separate role, which is optional.
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


def advice_for(missing: RbacRule) -> str:
    """Return advice for an operator's author on how to add a missing right to the generated role."""
    [group], [resource], [verb] = missing.groups, missing.resources, missing.verbs
    ways = [f'rbac(groups="{group}", resources="{resource}", verbs="{verb}") to the operator\'s `rights`']
    if resource.endswith("/status") and verb == "patch":
        ways.append("`extends_status = True` if the operator is of this kind")
    elif "/" not in resource:
        declared = (name for name, verbs in _DECLARATIONS.items() if verb in verbs)
        ways += [f"the kind to its `{name}`" for name in declared]
    return f"to grant it, add {', or '.join(ways)}, and run `generate`"
