"""The generated table of built-in types, read at its first use.

`make record` writes `builtin.json`; tests/recordings/generated.py describes its content.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import orjson

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""The name prefix of types that all groups share."""

_OPTIONS = frozenset(
    {"CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"}
)


@functools.cache
def entries() -> dict[str, dict[str, Any]]:
    """Return the entries of all types by OpenAPI name; the caller must not change them."""
    loaded: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("builtin.json").read_bytes())
    return loaded


@functools.cache
def _kinds() -> dict[tuple[str, str, str], str]:
    found = {}
    for name, entry in entries().items():
        for kind in entry.get("schema", {}).get("x-kubernetes-group-version-kind", ()):
            found[kind["group"], kind["version"], kind["kind"]] = name
    return found


def name_of(group: str, version: str, kind: str) -> str | None:
    """Return the OpenAPI name of a built-in kind, list kind or options kind, or None if it is unknown."""
    name = _kinds().get((group, version, kind))
    if name is None and kind in _OPTIONS:  # every group has them
        return META + kind if META + kind in entries() else None
    return name


def go_type(name: str) -> list[list[Any]] | str:
    """Return a type's definition: the fields of a struct, another type's name, or `custom` (own codec)."""
    go: list[list[Any]] | str = entries()[name]["go"]
    return go


def fields_of(name: str) -> list[list[Any]]:
    """Return the fields of a struct, each as [JSON name, Go type, omission flags, protobuf number]."""
    go = go_type(name)
    assert isinstance(go, list), name
    return go


def go_name(name: str) -> str:
    """Return a type's name in Go's error messages, such as `v1.DeploymentSpec`."""
    package, _, short = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{short}"


@functools.cache
def choices(field: str) -> tuple[str, ...]:
    """Return the sorted enum values of a field of k8s.io/api, such as `core.v1.ServiceSpec.type`."""
    owner, _, name = field.rpartition(".")
    schema = entries()[f"io.k8s.api.{owner}"]["schema"]["properties"][name]
    return tuple(schema["enum"] if "enum" in schema else schema["items"]["enum"])
