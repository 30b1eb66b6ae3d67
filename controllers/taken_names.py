"""Children whose names are taken: by somebody else, or by what an earlier owner of the same name left."""

from __future__ import annotations

from manager.api import OwnerReference, Resource

__all__ = ["LEFT_OVER", "NAME_TAKEN", "is_left_over", "left_over"]

NAME_TAKEN = "NameTaken"
"""The reason, in conditions and Events, that a child's name belongs to somebody else."""

LEFT_OVER = "LeftOver"
"""The reason that a child's name is still taken by what an earlier owner of the same name had."""


def is_left_over(controller: OwnerReference | None, owner: Resource) -> bool:
    """Whether that controller was an object of the owner's kind and name, which has gone since.

    Its child is about to be collected as garbage, and the name free again.
    """
    return (
        controller is not None
        and controller.kind == owner.gvk.kind
        and controller.api_version.rpartition("/")[0] == owner.gvk.group
        and controller.name == owner.metadata.name
        and controller.uid != owner.metadata.uid
    )


def left_over(child: str, owner: Resource) -> str:
    """What to say of such a child."""
    return f"{child} of an earlier {owner.gvk.kind} of this name has still to be garbage-collected"
