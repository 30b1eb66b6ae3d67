"""What the generators refuse."""

from __future__ import annotations

__all__ = ["ModelError"]


class ModelError(Exception):
    """A model says something that its custom resource definition cannot; the message names the field."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
