"""Permissions of an operator on the API server, derived from its declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manager.api import is_crd
from manager.api.rights import RbacRule
from manager.operator.declaration import Owns, WatchPods
from manager.operator.definitions import definition_rights
from manager.operator.operator import Operator


def rights_of(operator: type[Operator[Any]]) -> list[RbacRule]:
    """Return the rules of an operator's role: those derived from its declarations, then its own `rights`."""
    return [*_derived(operator), *operator.rights]


def _derived(operator: type[Operator[Any]]) -> Iterator[RbacRule]:
    kind = operator.kind
    verbs = ["get", "list", "watch"]
    if is_crd(kind) or operator.finalizers:
        # Of a kind that others define, nothing is written but the finalizer of a declared `cleanup`.
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
            # The API server may demand the right to delete for an owner reference, too.
            yield RbacRule(group, plural, ("get", "list", "watch", "create", "patch", "delete"))
        else:
            yield RbacRule(group, plural, ("list", "watch"))
        if isinstance(source, WatchPods):
            # Only its Events say why a pod's volumes cannot be mounted.
            yield RbacRule(("",), ("events",), ("list",))
    yield RbacRule(("",), ("events",), ("create", "patch"))
    yield from definition_rights(operator.kinds())


def _rule(operator: type[Operator[Any]], resource: str, *verbs: str) -> RbacRule:
    return RbacRule((operator.kind.gvk.group,), (resource,), verbs)
