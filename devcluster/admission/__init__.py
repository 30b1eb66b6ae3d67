"""Admission of writes: the plugins that a cluster has by default, and webhooks."""

from __future__ import annotations

from devcluster.admission.admission import ClusterAdmission
from devcluster.admission.client import WebhookClient, WebhookFailed

__all__ = ["ClusterAdmission", "WebhookClient", "WebhookFailed"]
