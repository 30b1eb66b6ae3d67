"""Table of all functions that an expression may call."""

from __future__ import annotations

from devcluster.schema.cel import kubernetes_library, standard_library
from devcluster.schema.cel.types import Table

NAMESPACES = frozenset({"format", "ip", "jsonpatch", "lists", "optional", "sets", "strings"})
"""Names before a dot that are not variables."""

FUNCTIONS: Table = {}
for _table in (
    standard_library.FUNCTIONS,
    standard_library.TEXTS,
    standard_library.COLLECTIONS,
    kubernetes_library.FUNCTIONS,
    kubernetes_library.AUTHORIZATION,
):
    for _name, _overloads in _table.items():
        FUNCTIONS.setdefault(_name, []).extend(_overloads)
