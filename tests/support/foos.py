"""Foo objects, and the pods that they refer to, for the integration tests."""

from __future__ import annotations

from typing import Any

from tests.support.api_objects import manifest, object_path

API = "tutorial.my.domain/v1"


def foo(name: str, friend: Any) -> dict[str, Any]:
    return manifest(API, "Foo", name, name=friend)


def foo_path(namespace: str, name: str = "") -> str:
    return object_path(API, namespace, "foos", name)


def pod(name: str) -> dict[str, Any]:
    """Return a pod manifest with only the required fields."""
    container = {"name": "main", "image": "nginx"}
    return manifest("v1", "Pod", name, containers=[container], terminationGracePeriodSeconds=1)
