"""A webhook as a page of an HTTP server: headers, body, status and metrics."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import orjson

from manager.duration import parse_duration
from manager.http.server import Page
from manager.logs import get_logger
from manager.rate_limit import Lines
from manager.webhook.bodies import Bodies, BodyRefused
from manager.webhook.endpoint import LINES, Endpoint
from manager.webhook.turns import Turns
from manager.webhook.unanswered import Unanswered, status_body

if TYPE_CHECKING:
    from aiohttp import web

    from manager.metrics import Metrics

__all__ = ["review_page"]

_JSON = "application/json"

_EXPECTED_CODES = (200, 500)
"""There from the start, as in controller-runtime, so that a first failure is an increase."""

_NOBODY = "a client certificate is expected here"

_log = get_logger("webhook")


def review_page(
    endpoint: Endpoint, bodies: Bodies, turns: Turns, metrics: Metrics, *, identified: bool = False
) -> Page:
    """The page that hands reviews to `endpoint`; `identified` are only those of who has shown a certificate.

    Whatever comes gets an answer: 200 with a review, or another status with a `Status`, whose message the API
    server shows to its user.
    """
    requests, latency = metrics.webhook_requests, metrics.webhook_latency.labels(endpoint.path)
    in_flight = metrics.webhook_in_flight.labels(endpoint.path)
    by_code = {code: requests.labels(endpoint.path, str(code)) for code in _EXPECTED_CODES}

    faults = Lines(per_minute=LINES)

    async def show(request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        in_flight.inc()
        response: web.StreamResponse
        try:
            if identified and not request.get_extra_info("peercert"):
                response = _failure(request, HTTPStatus.UNAUTHORIZED, "Unauthorized", _NOBODY)
            else:
                response = await _response(request, endpoint, bodies, turns, faults)
        finally:
            in_flight.dec()
            latency.observe(loop.time() - began)
        counter = by_code.get(response.status)
        (counter or requests.labels(endpoint.path, str(response.status))).inc()
        return response

    return show


async def _response(
    request: web.Request, endpoint: Endpoint, bodies: Bodies, turns: Turns, faults: Lines
) -> web.StreamResponse:
    from aiohttp import web  # noqa: PLC0415 - see manager.http.server

    try:
        _check_headers(request)
        async with bodies.held_body(request, limit=endpoint.max_body) as held:
            async with turns.taken(len(held.body)):
                answer = await endpoint.answer(held.body, waits=_waits(request))
            held.body = b""
            response = web.StreamResponse(headers={"Content-Type": _JSON})
            response.content_length = len(answer)
            await bodies.send(response, answer, held)
        return response
    except BodyRefused as refused:
        return _failure(request, refused.code, refused.reason, str(refused))
    except Unanswered as error:
        return _failure(request, error.code, error.reason, str(error))
    except ConnectionError:
        raise  # nobody is there to be told
    except Exception as error:  # noqa: BLE001 - a fault of ours is answered like one of an operator's
        faults.tell(_log.error, "a review failed unexpectedly", webhook=endpoint.path, exc_info=error)
        text = f"the webhook failed unexpectedly ({type(error).__name__}); the log of the manager says more"
        return _failure(request, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)


def _check_headers(request: web.Request) -> None:
    encoding = request.headers.get("Content-Encoding", "identity")
    if request.content_type != _JSON or encoding.lower() != "identity":
        raise BodyRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            f"a review is {_JSON}, not compressed",
        )


def _waits(request: web.Request) -> float | None:
    """How long the API server waits, which it says with each request."""
    try:
        seconds = parse_duration(request.query.get("timeout", ""))
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _failure(request: web.Request, code: HTTPStatus, reason: str, message: str) -> web.Response:
    from aiohttp import web  # noqa: PLC0415 - as above

    _log.debug("no verdict", webhook=request.path, code=int(code), reason=message)
    response = web.Response(
        status=code, body=orjson.dumps(status_body(int(code), reason, message)), content_type=_JSON
    )
    if code == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "1"
    return response
