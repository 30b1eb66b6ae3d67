"""A cache of all pods, and nothing else."""

from __future__ import annotations

from typing import Any

import kopf


def register(registry: kopf.OperatorRegistry) -> None:
    """Add the index."""

    @kopf.index("", "v1", "pods", id="pods", registry=registry)
    def pods(namespace: str, name: str, body: kopf.Body, **_: Any) -> dict[Any, Any]:
        # kopf's documentation warns of the memory that managed fields take.
        metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
        return {(namespace, name): {**body, "metadata": metadata}}
