"""The one built-in kind that every write treats in its own way."""

from __future__ import annotations

import base64
from typing import Any

from manager.api.resource import GroupVersionKind

SECRET = GroupVersionKind("", "v1", "Secret")


def fold_string_data(wire: dict[str, Any]) -> dict[str, Any]:
    """Move a Secret's `stringData` into its `data`, as the server would; change nothing else.

    The server does not remember `stringData` of an apply, so it would not remove keys that a later apply
    leaves out. Values that are not text stay, and the server reports them.
    """
    texts = wire.get("stringData")
    if isinstance(texts, dict) and all(isinstance(each, str) for each in texts.values()):
        del wire["stringData"]
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        wire["data"] = {**(wire.get("data") or {}), **encoded}
    return wire
