"""What an operator may do on the server, derived from its declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manager.operator.declaration import Owns, WatchPods
from manager.operator.definitions import definition_rights
from manager.operator.operator import Operator
from manager.rights import RbacRule


def rights_of(operator: type[Operator[Any]]) -> list[RbacRule]:
    """The rules of an operator's role: those that follow from its declarations, then its own `rights`."""
    return [*_derived(operator), *operator.rights]


def _derived(operator: type[Operator[Any]]) -> Iterator[RbacRule]:
    kind = operator.kind
    verbs = ["list", "watch"]
    if operator.owns or operator.finalizers:
        verbs.insert(0, "get")  # the server is asked before an object is given something for good
    if operator.finalizers:
        verbs.append("patch")
    yield _rule(operator, kind.plural, *verbs)
    if operator.has_status:
        yield _rule(operator, f"{kind.plural}/status", "patch")
    if operator.owns:
        # Owner references that hold up the owner's deletion take this.
        yield _rule(operator, f"{kind.plural}/finalizers", "update")
    for source in operator.sources:
        group, plural = (source.kind.gvk.group,), (source.kind.plural,)
        if isinstance(source, Owns):
            wanted = ["get", "list", "watch", "create", "patch"]
            if source.prune:
                yield RbacRule(group, plural, (*wanted, "delete"))
                continue
            yield RbacRule(group, plural, tuple(wanted))
            # Nothing is deleted; but an owner is given to what has lost it.
            yield RbacRule(group, plural, ("delete",), owner_references=True)
        else:
            yield RbacRule(group, plural, ("list", "watch"))
        if isinstance(source, WatchPods):
            # Only its Events say why a pod's volumes cannot be mounted.
            yield RbacRule(("",), ("events",), ("list",))
    yield RbacRule(("",), ("events",), ("create", "patch"))
    yield from definition_rights(operator.kinds())


def _rule(operator: type[Operator[Any]], resource: str, *verbs: str) -> RbacRule:
    return RbacRule((operator.kind.gvk.group,), (resource,), verbs)
