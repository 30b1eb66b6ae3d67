"""The base of built-in types: most are never used, so a validator is only made for those that are."""

from __future__ import annotations

from manager.api.model import ApiModel


class Part(ApiModel, defer_build=True):
    """A part of Kubernetes' own objects."""
