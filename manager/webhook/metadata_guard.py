"""What conversion must not change."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from manager.webhook.json_object import JsonObject

__all__ = ["guarded_metadata"]

_FREE = ("labels", "annotations")
"""What a conversion may change of metadata. For the rest the API server would refuse the whole review."""


def guarded_metadata(original: msgspec.Raw, converted: Any) -> JsonObject:
    """The metadata as it was, with the labels and annotations of `converted`, which a function has made.

    Raises `TypeError` when those are not texts by name, and names what is not.
    """
    metadata: JsonObject = orjson.loads(memoryview(original))
    if not isinstance(converted, dict):
        return metadata
    for field in _FREE:
        if field not in converted:
            metadata.pop(field, None)
        elif (value := converted[field]) != metadata.get(field):
            metadata[field] = _texts(value, field)
    return metadata


def _texts(value: Any, field: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"metadata.{field} has become {type(value).__name__}, and has to be an object")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(
                f"metadata.{field}[{name}] has become {type(text).__name__}, and has to be a text"
            )
    return value
