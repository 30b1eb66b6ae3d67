"""The part of an object's metadata that the runtime itself looks at."""

from __future__ import annotations

import msgspec

__all__ = ["Meta", "Owner"]


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner reference."""

    uid: str
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object's metadata as keys, owners, labels and predicates need it.

    Decoded without touching the rest of the object, and not kept: what the cache holds are the bytes.
    """

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object, or None."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None
