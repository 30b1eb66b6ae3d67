"""A user of the cluster, as the API server knows them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["User"]


@dataclass(frozen=True, slots=True)
class User:
    """What a TokenReview tells of a user, and a SubjectAccessReview asks about."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes, such as the pod that a service account's token belongs to."""
