"""What can go wrong in the client beyond what the API server says.

KubeError
├── NotCached       a cached read of a kind, selection or namespace that no controller declared
├── OwnedByOther    an object of the wanted name exists and is not ours
└── Undecodable     an object is not of its model's shape
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from manager.api import GroupVersionKind, ObjectKey, OwnerReference
from manager.kube.errors import KubeError

__all__ = ["NotCached", "OwnedByOther", "Undecodable"]


class NotCached(KubeError):
    """A cached read of a kind, selection or namespace that is not watched: what is there is not known.

    Declare the kind in the operator's class (`owns`, `watches` or `reads`), or read it from the server with
    `client.uncached`. What is declared with a selector is read with the same one, by
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
    ) -> None:
        what = f"the metadata of {kind}" if metadata_only else kind
        mend = "declare it in owns, watches or reads of the operator"
        if namespace:
            what += f" in namespace {namespace}"
            mend = f"only {', '.join(watched)} is watched; watch it too"
        elif others:
            reader = "client.metadata" if metadata_only else "client"
            ways = " or ".join(f"{reader}.selecting({other})" if other else reader for other in others)
            what += f" with {selection}" if selection else " as a whole"
            mend = f"read what is, with {ways}"
        super().__init__(f"{what} is not cached: {mend}, or read it with client.uncached")


class OwnedByOther(KubeError):
    """An object of the wanted name exists, and its controller is not the owner that wants it.

    Nothing was written. Attributes: `kind`, `key`, `controller`, which is None when the object has none, and
    `made_here`: it has none, but its managed fields say that this client made it, so that somebody may have
    taken its owner off.
    """

    def __init__(
        self, kind: str, key: ObjectKey, controller: OwnerReference | None, *, made_here: bool = False
    ) -> None:
        if controller:
            holder = f"belongs to {controller.kind} {controller.name}"
        else:
            holder = "has no owner" if made_here else "was created by somebody else"
        super().__init__(f"{kind} {key.name} already exists and {holder}")
        self.kind = kind
        self.key = key
        self.controller = controller
        self.made_here = made_here


class Undecodable(KubeError):
    """An object is not of its model's shape: it was stored under another schema than the model's.

    Trying again does not help; a change of the object, or another version of the program, does. A reconcile
    that fails with its own object waits for that; one that fails with another object is tried again.
    Attributes: `gvk` and `key` say which object it is.
    """

    def __init__(self, gvk: GroupVersionKind, key: ObjectKey, cause: ValidationError) -> None:
        first = cause.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        super().__init__(f"{gvk.kind} {key}: {where}: {first['msg']}")
        self.gvk = gvk
        self.key = key
