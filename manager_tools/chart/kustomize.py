"""Manifests of a folder: `kubectl kustomize` with other images."""

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
    """kustomize refused; the message is its own."""


def build(
    folder: Path, images: Mapping[str, Image] | None = None, *, prefix: str = "", namespace: str = ""
) -> str:
    """Return what `folder` makes, as a YAML stream.

    `images` replaces images by their plain names; `prefix` and `namespace` are for all that is in there.
    The environment variable KUBECTL names another kubectl. Raises ToolMissing and BuildFailed.
    """
    name = os.environ.get("KUBECTL") or "kubectl"
    kubectl = shutil.which(name)
    if kubectl is None:
        raise ToolMissing(f"{name} is not on the PATH; it is needed to build the manifests")
    if not (images or prefix or namespace):
        return _run(kubectl, folder)
    # A separate overlay leaves the files under config/ unchanged.
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
