"""The errors of the client beyond the API server's own.

KubeError
├── NotCached       a cached read of a kind, selection or namespace that no controller declared
├── OwnedByOther    an object of the wanted name exists and is not ours
├── Undecodable     an object is not of its model's shape
└── Conflict
    └── ApplyConflict   other field managers have what an unforced apply would set
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from pydantic import ValidationError

from manager.api import GroupVersionKind, ObjectKey, OwnerReference
from manager.kube.errors import Conflict, KubeError


class NotCached(KubeError):
    """A cached read of a kind, selection or namespace that is not watched.

    Declare the kind in the operator's class (`owns`, `watches` or `reads`), or read it from the server with
    `client.uncached`. A kind that is declared with a selector is read with the same one, by
    `client.selecting`.
    """

    def __init__(
        self,
        kind: str,
        *,
        metadata_only: bool,
        selection: str = "",
        others: Sequence[str] = (),
        namespace: str = "",
        watched: Sequence[str] = (),
        shared_out: bool = False,
        children: bool = False,
    ) -> None:
        what = f"the metadata of {kind}" if metadata_only else kind
        mend = "declare it in owns, watches or reads of the operator"
        if shared_out:
            what += " of other replicas (--shards)"
            mend = f"declare reads = ({kind},) in the operator"
            if children:
                mend = f"list the children of one object, {mend}"
        elif namespace:
            what += f" in namespace {namespace}"
            mend = f"only {', '.join(watched)} is watched; watch it too"
        elif others:
            reader = "client.metadata" if metadata_only else "client"
            ways = " or ".join(f"{reader}.selecting({other})" if other else reader for other in others)
            what += f" with {selection}" if selection else " as a whole"
            mend = f"read what is, with {ways}"
        super().__init__(f"{what} is not cached: {mend}, or read it with client.uncached")


class OwnedByOther(KubeError):
    """An object of the wanted name exists, and has another controller, or none. Nothing was written.

    Attributes: `kind`, `key`, `controller`, which is None if the object has none, `finalizers`, which is None
    unless the object is being deleted, and `made_here`: it has no controller, but according to its managed
    fields this client created it, so another client may have removed its owner reference.
    """

    def __init__(
        self,
        kind: str,
        key: ObjectKey,
        controller: OwnerReference | None,
        *,
        finalizers: Sequence[str] | None = None,
        made_here: bool = False,
    ) -> None:
        if controller:
            holder = f"belongs to {controller.kind} {controller.name}"
        else:
            holder = "has no owner" if made_here else "was created by somebody else"
        super().__init__(f"{kind} {key.name} already exists and {holder}")
        self.kind = kind
        self.key = key
        self.controller = controller
        self.finalizers = finalizers
        self.made_here = made_here


class Undecodable(KubeError):
    """An object does not fit its model: it was stored under another schema.

    A retry does not help; a change of the object, or another version of the program, does. A reconcile that
    fails with its own object waits for that. One that fails with another object is retried.

    Attributes: `gvk` and `key` of the object.
    """

    def __init__(self, gvk: GroupVersionKind, key: ObjectKey, cause: ValidationError) -> None:
        first = cause.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        super().__init__(f"{gvk.kind} {key}: {where}: {first['msg']}")
        self.gvk = gvk
        self.key = key


_is_owned = re.compile(r'conflict with "((?:[^"\\]|\\.)*)"').match


class FieldConflict(NamedTuple):
    """A field in conflict, as the server names it (`.spec.replicas`), and the manager that has set it."""

    manager: str
    field: str


class ApplyConflict(Conflict):
    """A conflict of an apply with `force=False`: other managers have set its fields to other values.

    Nothing was written. A retry does not help until one side gives up the field.

    Attributes: `conflicts` has each field and its manager.
    """

    conflicts: tuple[FieldConflict, ...] = ()

    @classmethod
    def of(cls, error: Conflict) -> Self | None:
        """Convert a conflict that names other managers; return None for any other conflict."""
        causes = error.details.get("causes")
        conflicts = []
        for cause in causes if isinstance(causes, list) else ():
            if isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict":
                owned = _is_owned(str(cause.get("message", "")))
                conflicts.append(FieldConflict(owned[1] if owned else "", str(cause.get("field", ""))))
        if not conflicts:
            return None
        found = cls(error.status, error.reason, error.message, error.details)
        found.conflicts = tuple(conflicts)
        return found
