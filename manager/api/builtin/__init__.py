"""Models of Kubernetes' own types, made from one table; each module is imported when a name of it is used.

Import them from the module of their group: `from manager.api.core_v1 import PodTemplateSpec`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from manager.api.builtin.index import NAMES


def names_of(group: str) -> list[str]:
    """Return the names of the built-in types of `group`."""
    return [name for module, names in NAMES.items() if module.startswith(group) for name in names.split()]


def importer(group: str, namespace: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of the module that has the types of `group` (`core_v1`)."""

    def find(name: str) -> Any:
        for module, names in NAMES.items():
            if module.startswith(group) and name in names.split():
                namespace[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
                return namespace[name]
        raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")

    return find
