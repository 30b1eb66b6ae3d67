"""What a migration needs to be allowed.

`config/rbac/` has a ClusterRole of these rules for the operators' kinds. It is bound to nobody: a person who
upgrades is an administrator most often, and a Job is given it for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from manager.api import Resource, crd_options
from manager.rights import RbacRule

__all__ = ["DEFINITIONS", "GROUP", "migration_rights"]

GROUP = "apiextensions.k8s.io"
DEFINITIONS = "customresourcedefinitions"


def migration_rights(kinds: Iterable[type[Resource]]) -> list[RbacRule]:
    """The rules for `kinds`, of which several may be versions of one.

    Definitions: to read them, to keep the position of a migration at them (an annotation), and to trim the
    stored versions, which are in their status. Objects: to list them, and to patch what is written of
    them, which is the status where that is apart.
    """
    rules: dict[RbacRule, None] = {}
    names: dict[str, None] = {}
    for kind in kinds:
        group, plural = kind.gvk.group, kind.plural
        names[f"{plural}.{group}"] = None
        written = f"{plural}/status" if crd_options(kind).status else plural
        rules[RbacRule((group,), (plural,), ("list",))] = None
        rules[RbacRule((group,), (written,), ("patch",))] = None
    named = tuple(names)
    return [
        RbacRule((GROUP,), (DEFINITIONS,), ("get", "patch"), named),
        RbacRule((GROUP,), (f"{DEFINITIONS}/status",), ("patch",), named),
        *rules,
    ]
