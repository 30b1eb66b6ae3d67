"""What ends a migration."""

from __future__ import annotations

__all__ = ["DefinitionChanged", "MigrationFailed", "Refused"]


class MigrationFailed(Exception):
    """The migration of a kind cannot go on; one line that says why. What has been rewritten stays so."""


class DefinitionChanged(Exception):
    """The definition is another one than when the pass began: what has been rewritten may be outdated."""


class Refused(Exception):
    """The server does not let one object be written as it is; the text is its reason.

    `failing` tells that it did not refuse the object so much as fail itself: a webhook that does not answer.
    """

    def __init__(self, reason: str, *, failing: bool) -> None:
        super().__init__(reason)
        self.failing = failing
