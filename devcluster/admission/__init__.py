"""Admission of writes: default and optional plugins, admission policies, and webhooks."""

from __future__ import annotations

from devcluster.admission.admission import ClusterAdmission
from devcluster.admission.client import WebhookClient, WebhookFailed

__all__ = ["ClusterAdmission", "WebhookClient", "WebhookFailed"]
