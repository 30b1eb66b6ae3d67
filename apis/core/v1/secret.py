"""Secret, as far as controllers read it."""

from __future__ import annotations

import base64

from pydantic import Field

from apis.meta import Resource

__all__ = ["Secret"]


class Secret(Resource, group="", version="v1", plural="secrets"):
    """Confidential values by key, in base64, which `repr` does not show."""

    type: str | None = None
    immutable: bool | None = None
    data: dict[str, str | None] | None = Field(default=None, repr=False)

    def value(self, key: str) -> bytes | None:
        """What is stored under the key; None when the Secret does not have it.

        Raises ValueError when it is not base64, which an API server never lets happen.
        """
        encoded = (self.data or {}).get(key)
        return None if encoded is None else base64.b64decode(encoded, validate=True)
