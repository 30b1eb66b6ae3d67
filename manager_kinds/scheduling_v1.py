# Made by scripts/generate-kinds; do not edit.
"""Kinds and types of scheduling.k8s.io/v1; each is created at its first use."""

from __future__ import annotations

from manager_kinds.factory import importer, lister

__getattr__ = importer(__name__)
__dir__ = lister(__name__)
