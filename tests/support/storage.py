"""Storage classes for tests whose pods need volumes; the real control plane comes with none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.support.control_plane import ControlPlane

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
STANDARD = "standard"
"""The default: volumes of it are made at once, and can grow."""
FIXED_SIZE = "fixed-size"
"""Volumes of it are made at once, and cannot grow."""


def storage_class(name: str, *, default: bool = False, expandable: bool = True) -> dict[str, Any]:
    """Return a storage class; the simulated nodes provision its volumes if it has one of the names above."""
    default_mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "metadata": {"name": name, "annotations": default_mark if default else {}},
        "provisioner": "kwok",
        "allowVolumeExpansion": expandable,
    }


@contextlib.contextmanager
def storage_classes(plane: ControlPlane) -> Iterator[None]:
    """Both classes, for as long as the `with` block lasts, as far as they are not there anyway."""
    wanted = [storage_class(STANDARD, default=True), storage_class(FIXED_SIZE, expandable=False)]
    missing = [each for each in wanted if plane.api.find(f"{CLASSES}/{each['metadata']['name']}") is None]
    for each in missing:
        plane.api.create(CLASSES, each)
    yield
    for each in missing:
        plane.api.delete(f"{CLASSES}/{each['metadata']['name']}")
