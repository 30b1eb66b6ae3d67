"""The server of all webhooks of a process, and each of them as a page: headers, body, status and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from manager.server.connection import Limits
from manager.server.server import serve
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.tracing import current_tracer
from manager.tls.served import ServedCertificate
from manager.util.address import BindAddress
from manager.util.duration import parse_duration
from manager.util.rate_limit import Lines
from manager.webhook.bodies import JSON, Bodies, BodyRefused
from manager.webhook.bounds import Turns
from manager.webhook.endpoint import LINES, Endpoint
from manager.webhook.errors import Unanswered, status_body

_EXPECTED_CODES = (200, 500)
"""There from the start, as in controller-runtime, so that a first failure is an increase."""

_LONGEST_WAIT = 32
"""Characters of the time that an API server waits: `10s`, `1m30s`."""

_NOBODY = "a client certificate is expected here"

_log = get_logger("webhook")


def _review_handler(
    endpoint: Endpoint, bodies: Bodies, turns: Turns, metrics: Metrics, certificate: ServedCertificate
) -> Handler:
    """Return the handler that hands reviews to `endpoint`, of clients with a certificate where they need one.

    Whatever comes gets an answer: 200 with a review, or another status with a `Status`, whose message the API
    server shows to its user.
    """
    requests, latency = metrics.webhook_requests, metrics.webhook_latency.labels(endpoint.path)
    in_flight = metrics.webhook_in_flight.labels(endpoint.path)
    by_code = {code: requests.labels(endpoint.path, str(code)) for code in _EXPECTED_CODES}

    faults = Lines(per_minute=LINES)
    identified = certificate.asks_clients and endpoint.identified

    async def show(request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        in_flight.inc()
        tracer = current_tracer()
        trace = None if tracer is None else tracer.review(endpoint.path, request.headers)
        response: web.StreamResponse | None = None
        try:
            if identified and not request.get_extra_info("peercert"):
                response = _failure(request, HTTPStatus.UNAUTHORIZED, "Unauthorized", _NOBODY)
            else:
                response = await _response(request, endpoint, bodies, turns, faults)
        finally:
            in_flight.dec()
            if trace is not None:
                trace.ended(0 if response is None else response.status)
            latency.observe(loop.time() - began)
        counter = by_code.get(response.status)
        (counter or requests.labels(endpoint.path, str(response.status))).inc()
        return response

    return show


async def _response(
    request: web.Request, endpoint: Endpoint, bodies: Bodies, turns: Turns, faults: Lines
) -> web.StreamResponse:
    try:
        _check_headers(request)
        async with bodies.held_body(request, limit=endpoint.max_body) as held:
            async with turns.taken(len(held.body)):
                answer = await endpoint.answer(held.body, waits=_waits(request))
            held.body = b""
            return await bodies.send(answer, held)
    except BodyRefused as refused:
        return _failure(request, refused.code, refused.reason, str(refused))
    except Unanswered as error:
        return _failure(request, error.code, error.reason, str(error))
    except ConnectionError:
        raise  # the client is gone
    except Exception as error:  # noqa: BLE001 - a fault of ours is answered like one of an operator's
        faults.log(_log.error, "a review failed unexpectedly", webhook=endpoint.path, exc_info=error)
        text = f"the webhook failed unexpectedly ({type(error).__name__}); the log of the manager says more"
        return _failure(request, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)


def _check_headers(request: web.Request) -> None:
    encoding = request.headers.get("Content-Encoding", "identity")
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if content_type.lower() != JSON or encoding.lower() != "identity":
        raise BodyRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            f"a review is {JSON}, not compressed",
        )


def _waits(request: web.Request) -> float | None:
    """How long the API server waits, which it says with each request."""
    text = request.query.get("timeout", "")
    if len(text) > _LONGEST_WAIT:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _failure(request: web.Request, code: HTTPStatus, reason: str, message: str) -> web.Response:
    _log.debug("no verdict", webhook=request.path, code=int(code), reason=message)
    body = orjson.dumps(status_body(int(code), reason, message))
    response = web.Response(status=code, body=body, content_type=JSON)
    if code == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "1"
    return response


LIMITS = Limits(
    connections=256,  # each is one review at a time; API servers open as many as they have requests
    exchange=180.0,  # 10 s for a body, 30 s for an answer, and the pause after it
    keep_alive=120.0,  # longer than the 90 s of API servers, so that they end connections first
    drain=10.0,  # as long as a review takes by default
)


class WebhookServer:
    """HTTPS server of webhooks, which starts as soon as there is a certificate."""

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
        """Create a webhook server.

        Args:
            address: the address to listen at.
            endpoints: the endpoints, each with its path.
            certificate: the served certificate; a new one replaces it without ending a connection.
            metrics: counts the requests.
            limits: of connections and times.
            bodies: limits of bodies; default `Bodies()`.
            stopping: returns whether this server ends soon. It still answers, but tells clients that each
                answer is the last on its connection.
        """
        self._address = address
        self._stopping = stopping
        self._certificate = certificate
        self._limits = limits
        bodies, turns = bodies or Bodies(), Turns()
        self._routes = [
            web.post(endpoint.path, _review_handler(endpoint, bodies, turns, metrics, certificate))
            for endpoint in endpoints
        ]
        self._bound: BindAddress | None = None

    @property
    def bound(self) -> BindAddress | None:
        """Return the address that it listens at, with the actual port; None while it does not listen."""
        return self._bound

    @property
    def problem(self) -> str | None:
        """Return why requests should go elsewhere; None while they are welcome."""
        if self._stopping():
            return "the manager is stopping"
        if self._bound is not None:
            return None
        return self._certificate.problem or f"nothing listens on {self._address} yet"

    async def run(self) -> None:
        """Serve until cancelled, and finish the answers that are under way then.

        Raises `CannotListen`.
        """
        await self._certificate.obtained()
        try:
            async with serve(
                "webhooks",
                self._address,
                self._routes,
                certificate=self._certificate,
                limits=self._limits,
                leaving=self._stopping,
                flag="--webhook-bind-address",
            ) as server:
                self._bound = server.address
                await asyncio.Event().wait()
        finally:
            self._bound = None
