"""The version of the library, and the versions of Kubernetes that it is tested with."""

from __future__ import annotations

VERSION = "0.1.0"
"""The version on `main`. It is not released until a tag has its name."""

KUBERNETES_VERSIONS = ("1.33", "1.36")
"""The Kubernetes versions on whose control planes the tests run: the oldest that is supported, the newest."""
