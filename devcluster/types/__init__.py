"""The types that come with the server: their schemas, and how Go would read and write them."""

from __future__ import annotations

from devcluster.types.schemas import schema_for, schema_of
from devcluster.types.table import name_of

__all__ = ["name_of", "schema_for", "schema_of"]
