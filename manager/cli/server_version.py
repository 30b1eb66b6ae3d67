"""A first request, which tells whether there is an API server that knows us."""

from __future__ import annotations

import orjson

from manager.cli.errors import ServerUnusable
from manager.kube.config import ClusterConfig
from manager.kube.errors import ApiError, Forbidden, TransportError, Unauthorized
from manager.kube.transport import Transport

__all__ = ["server_version"]

_START_PATIENCE = 5.0
"""Seconds in which the API server has to answer once: enough for a pod whose network comes up late."""


async def server_version(transport: Transport, config: ClusterConfig) -> str:
    """The API server's version. Raises `ServerUnusable` when it does not tell it."""
    server = f"the API server {config.server} ({config.source})"
    try:
        answer = await transport.request("GET", "/version", deadline=_START_PATIENCE)
        return str(orjson.loads(answer)["gitVersion"])
    except Forbidden:
        return "unknown"  # it is there and knows us
    except Unauthorized as error:
        raise ServerUnusable(f"{server} does not accept the credentials: {error}") from error
    except TransportError as error:
        raise ServerUnusable(f"{server} does not answer: {error}") from error
    except (ApiError, ValueError, KeyError, TypeError) as error:
        raise ServerUnusable(f"{server} does not answer as one: {error}") from error
