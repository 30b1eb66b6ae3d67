"""The objects that the demo applies: the project's CRDs and samples, from `config/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manager.util.yaml_text import yaml_documents

__all__ = ["load_crds", "load_samples"]


def load_crds(root: Path) -> list[dict[str, Any]]:
    """Load the CustomResourceDefinitions of `make generate`."""
    return _load(root / "config" / "crd" / "bases")


def load_samples(root: Path) -> list[dict[str, Any]]:
    """Load the samples, one or more of each kind."""
    return _load(root / "config" / "samples")


def _load(folder: Path) -> list[dict[str, Any]]:
    documents = []
    for path in sorted(folder.glob("*.yaml")):
        documents += yaml_documents(path.read_text(encoding="utf-8"))
    return [each for each in documents if each.get("kind") != "Kustomization"]
