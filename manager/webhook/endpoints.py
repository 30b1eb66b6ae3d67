"""The endpoints of all webhooks of a process."""

from __future__ import annotations

from collections.abc import Sequence

from manager.telemetry.metrics import Metrics
from manager.webhook.admission import AdmissionEndpoint
from manager.webhook.conversion import ConversionEndpoint
from manager.webhook.registration import Webhooks

Endpoint = AdmissionEndpoint | ConversionEndpoint
"""Either answers reviews as bytes, independent of HTTP."""


def endpoints_of(webhooks: Webhooks, metrics: Metrics) -> Sequence[Endpoint]:
    """Return the endpoints that serve the registrations."""
    endpoints: list[Endpoint] = []
    for admission in webhooks.admissions:
        endpoints += AdmissionEndpoint.all_of(admission, panics=metrics.webhook_panics)
    if webhooks.conversions:
        endpoints.append(ConversionEndpoint(webhooks.conversions, panics=metrics.conversion_panics))
    return endpoints
