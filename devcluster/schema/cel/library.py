"""Every function that an expression may call."""

from __future__ import annotations

from devcluster.schema.cel import (
    authorizer_library,
    collections_library,
    kubernetes_library,
    standard_library,
    text_library,
)
from devcluster.schema.cel.functions import Overload, Table

__all__ = ["FUNCTIONS", "NAMESPACES", "Overload"]

NAMESPACES = frozenset({"format", "ip", "jsonpatch", "lists", "optional", "sets", "strings"})
"""Names that may stand before a dot without being a variable."""

FUNCTIONS: Table = {}
for _table in (
    standard_library.FUNCTIONS,
    text_library.FUNCTIONS,
    collections_library.FUNCTIONS,
    kubernetes_library.FUNCTIONS,
    authorizer_library.FUNCTIONS,
):
    for _name, _overloads in _table.items():
        FUNCTIONS.setdefault(_name, []).extend(_overloads)
