"""The version of the library, and the versions of Kubernetes in its tests."""

from __future__ import annotations

VERSION = "0.1.0"
"""The version on `main`. It is not released before a tag has its name."""

KUBERNETES_VERSIONS = ("1.33", "1.36")
"""The Kubernetes versions of the tested control planes: the oldest supported one, and the newest."""
