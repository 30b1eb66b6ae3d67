"""A program that only caches all pods."""

from __future__ import annotations

from typing import Any

import kopf


def register(registry: kopf.OperatorRegistry) -> None:
    """Add the index."""

    @kopf.index("", "v1", "pods", id="pods", registry=registry)
    def pods(namespace: str, name: str, body: kopf.Body, **_: Any) -> dict[Any, Any]:
        # kopf's documentation warns about the memory that managedFields need.
        metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
        return {(namespace, name): {**body, "metadata": metadata}}
