"""Parts of a definition as Go's JSON of the server's internal types, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

__all__ = ["rule_object", "show", "version_object"]

_ESCAPES = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}


def show(value: Any) -> str:
    """Encode JSON with the characters escaped that HTML treats specially."""
    text = orjson.dumps(value).decode()
    for each, escaped in _ESCAPES.items():
        text = text.replace(each, escaped)
    return text


def rule_object(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule with Go's internal names, and zero values for missing fields."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def version_object(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return a version with Go's internal names, and zero values for missing fields."""
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": version.get("schema"),
        "Subresources": version.get("subresources"),
        "AdditionalPrinterColumns": version.get("additionalPrinterColumns"),
        "SelectableFields": version.get("selectableFields"),
    }
