"""Approval annotation of CustomResourceDefinitions in the groups that Kubernetes protects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.urls import split_url

APPROVAL = "api-approved.kubernetes.io"
APPROVED, BYPASSED = "ApprovedAnnotation", "UnapprovedAnnotation"
_ABOUT = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(definition: Mapping[str, Any]) -> bool:
    """Return whether the definition's group is protected: `k8s.io`, `kubernetes.io` or a subdomain."""
    group = definition["spec"].get("group") or ""
    return group in {"k8s.io", "kubernetes.io"} or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of the condition that tells whether the definition is approved."""
    value = (definition["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    if not value:
        return "MissingAnnotation", f'protected groups must have approval annotation "{APPROVAL}", {_ABOUT}'
    if value.startswith("unapproved"):
        return BYPASSED, f'not approved: "{value}"'
    try:
        url = split_url(value)
    except ValueError:
        url = None
    if url is not None and url.netloc and url.scheme:
        return APPROVED, f"approved in {value}"
    return "InvalidAnnotation", (
        f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason '
        f'starting with "unapproved", {_ABOUT}'
    )
