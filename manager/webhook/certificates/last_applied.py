"""What `kubectl apply` may take away again.

It notes on each object what it has applied, and takes away of that what a later apply no longer names. What
others have written it leaves alone. So a URL of ours would stay beside the Service that an installation
names, and the API server takes only one of them: `kubectl apply` would be refused until somebody took the URL
away. That is why we note what we write as kubectl does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from manager.webhook.json_object import JsonObject

__all__ = ["LAST_APPLIED", "noted"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps what it has applied, as JSON."""


def noted(found: Mapping[str, Any], written: JsonObject) -> dict[str, str]:
    """Return the annotations of an object on which `written` is noted.

    Args:
        found: the object as it is; empty if there is none.
        written: the part of it that is to be ours, with apiVersion, kind and name. It takes the place of what
            was noted of the same fields; what was noted of others stays noted.
    """
    annotations: dict[str, str] = dict((found.get("metadata") or {}).get("annotations") or {})
    before = _decoded(annotations.get(LAST_APPLIED, ""))
    note = {**before, **written}
    for part in ("metadata", "spec"):
        if part in written and isinstance(old := before.get(part), dict):
            note[part] = {**old, **written[part]}
    return {**annotations, LAST_APPLIED: orjson.dumps(note).decode() + "\n"}


def _decoded(note: str) -> JsonObject:
    """A note that nobody can read counts as none: kubectl would not apply either."""
    try:
        decoded = orjson.loads(note)
    except orjson.JSONDecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
