"""The endpoints of all webhooks of a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manager.telemetry.metrics import Metrics
from manager.webhook.admission import AdmissionEndpoint
from manager.webhook.conversion import ConversionEndpoint
from manager.webhook.endpoint import Endpoint
from manager.webhook.registration import Webhooks


def endpoints_of(webhooks: Webhooks, metrics: Metrics) -> Sequence[Endpoint[Any]]:
    """Return the endpoints that serve the registrations."""
    reviewed = (each for admission in webhooks.admissions for each in admission.webhooks)
    endpoints: list[Endpoint[Any]] = [
        AdmissionEndpoint(each, panics=metrics.webhook_panics) for each in reviewed
    ]
    if webhooks.conversions:
        endpoints.append(ConversionEndpoint(webhooks.conversions, panics=metrics.conversion_panics))
    return endpoints
