"""An object as the API server sends it, before any schema has looked at it."""

from __future__ import annotations

from typing import Any

__all__ = ["JsonObject"]

JsonObject = dict[str, Any]
"""The JSON of one object. Below the top there may be anything anywhere: whoever reads it checks types, and
leaves alone what it cannot read, so that the schema's own message reaches the user."""
