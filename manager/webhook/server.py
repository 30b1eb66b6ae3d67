"""The server of all webhooks of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from manager.http.limits import Limits
from manager.http.server import serve
from manager.webhook.admit import AdmissionEndpoint
from manager.webhook.bodies import Bodies
from manager.webhook.convert import ConversionEndpoint
from manager.webhook.endpoint import Endpoint
from manager.webhook.page import review_page
from manager.webhook.turns import Turns

if TYPE_CHECKING:
    from manager.http.address import BindAddress
    from manager.metrics import Metrics
    from manager.tls import ServedCertificate
    from manager.webhook.webhooks import Webhooks

__all__ = ["WebhookServer", "endpoints_of"]

LIMITS = Limits(
    connections=256,  # each is one review at a time; API servers open as many as they have requests
    exchange=180.0,  # 10 s for a body, 30 s for an answer, and the pause after it
    keep_alive=120.0,  # longer than the 90 s of API servers: who ends a connection never sends on it
    finish=10.0,  # as long as a review takes by default
)


def endpoints_of(webhooks: Webhooks, metrics: Metrics) -> Sequence[Endpoint]:
    """What is served for them."""
    endpoints: list[Endpoint] = []
    for admission in webhooks.admissions:
        endpoints += AdmissionEndpoint.all_of(admission, panics=metrics.webhook_panics)
    if webhooks.conversions:
        endpoints.append(ConversionEndpoint(webhooks.conversions, panics=metrics.conversion_panics))
    return endpoints


class WebhookServer:
    """Serves webhooks over HTTPS, as soon as there is a certificate."""

    def __init__(
        self,
        address: BindAddress,
        endpoints: Sequence[Endpoint],
        certificate: ServedCertificate,
        *,
        metrics: Metrics,
        limits: Limits = LIMITS,
        bodies: Bodies | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Args:
        address: where it listens.
        endpoints: what answers, each under its path.
        certificate: what it presents; another one is taken up without ending a connection.
        metrics: where requests are counted.
        limits: what clients may take.
        bodies: what bodies may take; default `Bodies()`.
        stopping: whether API servers should go elsewhere, as this one ends soon. They are answered all the
            same, and told that each answer is the last on its connection.
        """
        self._address = address
        self._stopping = stopping
        self._certificate = certificate
        self._limits = limits
        bodies, turns = bodies or Bodies(), Turns()
        self._pages = {
            endpoint.path: review_page(
                endpoint, bodies, turns, metrics, identified=certificate.asks_clients and endpoint.identified
            )
            for endpoint in endpoints
        }
        self._bound: BindAddress | None = None

    @property
    def bound(self) -> BindAddress | None:
        """Where it listens, with the port that the system has chosen; None while it does not."""
        return self._bound

    @property
    def problem(self) -> str | None:
        """Why nobody should be sent here; None while everybody may be."""
        if self._stopping():
            return "the manager is stopping"
        if self._bound is not None:
            return None
        return self._certificate.problem or f"nothing listens on {self._address} yet"

    async def run(self) -> None:
        """Serve until cancelled; what is being answered then is finished first.

        Raises `CannotListen`.
        """
        await self._certificate.obtained()
        try:
            async with serve(
                "webhooks",
                self._address,
                self._pages,
                certificate=self._certificate,
                method="POST",
                limits=self._limits,
                leaving=self._stopping,
            ) as self._bound:
                await asyncio.Event().wait()
        finally:
            self._bound = None
