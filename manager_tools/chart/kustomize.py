"""Builds of a folder's manifests by `kubectl kustomize`, with some images replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from manager_tools.chart.image import Image


class ToolMissing(Exception):
    """A required program is not on the PATH; the message names it and its purpose."""


class BuildFailed(Exception):
    """A failed build; the message has the reason, such as the error output of kustomize."""


def build(
    folder: Path, images: Mapping[str, Image] | None = None, *, prefix: str = "", namespace: str = ""
) -> str:
    """Build `folder` with kustomize, and return the manifests as a YAML stream.

    `images` maps an image name in the manifests to the image that replaces it. `prefix` and `namespace` apply
    to all objects. The environment variable KUBECTL may name another kubectl program. Raises ToolMissing and
    BuildFailed.
    """
    name = os.environ.get("KUBECTL") or "kubectl"
    kubectl = shutil.which(name)
    if kubectl is None:
        raise ToolMissing(f"{name} is not on the PATH; it is needed to build the manifests")
    if not (images or prefix or namespace):
        return _run(kubectl, folder)
    # The overlay is built in a separate folder, so that config/ stays unchanged.
    with tempfile.TemporaryDirectory() as scratch:
        overlay = Path(scratch).resolve()
        (overlay / "kustomization.yaml").write_text(
            yaml.safe_dump(_overlay(overlay, folder, images or {}, prefix, namespace))
        )
        return _run(kubectl, overlay)


def _overlay(
    overlay: Path, folder: Path, images: Mapping[str, Image], prefix: str, namespace: str
) -> dict[str, Any]:
    given = {"namePrefix": prefix, "namespace": namespace}
    return {
        **{field: value for field, value in given.items() if value},
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(folder.resolve(), overlay)],
        "images": [_replacement(name, image) for name, image in images.items()],
    }


def _replacement(name: str, image: Image) -> dict[str, str]:
    replacement = {"name": name, "newName": image.name}
    if image.tag is not None or image.digest is None:
        replacement["newTag"] = image.tag or "latest"
    if image.digest is not None:
        replacement["digest"] = image.digest
    return replacement


def _run(kubectl: str, folder: Path) -> str:
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(done.stderr.strip() or f"kubectl kustomize ended with {done.returncode}")
    return done.stdout
