"""The annotation with the approval of CustomResourceDefinitions in Kubernetes' own groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

APPROVAL = "api-approved.kubernetes.io"
APPROVED, BYPASSED = "ApprovedAnnotation", "UnapprovedAnnotation"
_ABOUT = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(definition: Mapping[str, Any]) -> bool:
    """Return whether the definition's group is Kubernetes' own."""
    group = definition["spec"].get("group") or ""
    return group in {"k8s.io", "kubernetes.io"} or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of the condition with the state of the approval."""
    value = (definition["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    if not value:
        return "MissingAnnotation", f'protected groups must have approval annotation "{APPROVAL}", {_ABOUT}'
    if value.startswith("unapproved"):
        return BYPASSED, f'not approved: "{value}"'
    if urlsplit(value).netloc and urlsplit(value).scheme:
        return APPROVED, f"approved in {value}"
    return "InvalidAnnotation", (
        f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason '
        f'starting with "unapproved", {_ABOUT}'
    )
