"""Children whose names are taken: by somebody else, or by what an earlier owner of the same name left."""

from __future__ import annotations

from apis.meta import OwnerReference, Resource

__all__ = ["NAME_TAKEN", "is_left_over"]

NAME_TAKEN = "NameTaken"
"""The reason, in conditions and Events, that a child's name belongs to somebody else."""


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
