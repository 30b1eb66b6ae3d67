"""What `kubectl kustomize` makes of the folders of config/."""

from __future__ import annotations

import functools
import json
import shutil
from typing import Any

import pytest

from manager.codegen import yaml_documents
from release.kustomize import ROOT, build

Manifest = dict[str, Any]

SYSTEM = "operator-manager-system"
MANAGER = "operator-manager-controller-manager"
PETSTORE = "operator-manager-petstore"

_CONFIG = ROOT / "config"
OVERLAYS = sorted(str(path.parent.relative_to(_CONFIG)) for path in _CONFIG.rglob("kustomization.yaml"))
"""Every folder that kustomize builds, as a path under config/."""


@functools.cache
def _as_json(overlay: str) -> str:
    return json.dumps(yaml_documents(build(ROOT / "config" / overlay)))


def manifests(overlay: str = "default") -> list[Manifest]:
    """All objects of an overlay, for the caller alone; skips the test where there is no kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH")
    found: list[Manifest] = json.loads(_as_json(overlay))
    return found


def the(kind: str, name: str, overlay: str = "default") -> Manifest:
    """The one object of that kind and name."""
    (found,) = [
        each for each in manifests(overlay) if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pod_of(deployment: Manifest) -> Manifest:
    """The spec of its pods."""
    spec: Manifest = deployment["spec"]["template"]["spec"]
    return spec


def container_of(deployment: Manifest) -> Manifest:
    """The one container of its pods."""
    (container,) = pod_of(deployment)["containers"]
    found: Manifest = container
    return found


def flags_of(deployment: Manifest) -> list[str]:
    """The flags that the manager's Deployment runs it with."""
    command, *flags = container_of(deployment)["args"]
    assert command == "run"
    return flags
