"""Generation of everything that brings the project to a cluster: manifests, chart, bundle."""

from __future__ import annotations

from typing import Final

__all__ = ["OLDEST_KUBERNETES"]

OLDEST_KUBERNETES: Final = "1.30.0"
"""The first whose API servers know ValidatingAdmissionPolicies, which hold the manager's account."""
