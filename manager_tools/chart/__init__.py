"""Generation of a Helm chart from a project's config/."""

from __future__ import annotations

from manager_tools.chart.files import (
    OLDEST_KUBERNETES,
    Manifest,
    NotOurs,
    build_extra,
    chart_files,
    namespace_of,
    write_tree,
)
from manager_tools.chart.image import Image, InvalidImage
from manager_tools.chart.kustomize import BuildFailed, ToolMissing, build

__all__ = [
    "OLDEST_KUBERNETES",
    "BuildFailed",
    "Image",
    "InvalidImage",
    "Manifest",
    "NotOurs",
    "ToolMissing",
    "build",
    "build_extra",
    "chart_files",
    "namespace_of",
    "write_tree",
]
