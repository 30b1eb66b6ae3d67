"""A client of the API server that sends its requests on a wire (HTTP sender), which a test provides."""

from __future__ import annotations

import random
from typing import NamedTuple

from manager.cache import Cache
from manager.client import Client
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.kube.wire import Wire
from manager.telemetry.metrics import Metrics


class Connected(NamedTuple):
    """A client with its transport, its cache and their metrics."""

    client: Client
    transport: Transport
    cache: Cache
    metrics: Metrics


def connected(wire: Wire, *namespaces: str) -> Connected:
    """Return a client that uses this wire; its cache has only these namespaces, or all if none is given."""
    metrics, rng = Metrics(), random.Random(1)
    transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
    mapper = RestMapper(transport)
    cache = Cache(transport, mapper, field_manager="test", namespaces=namespaces, metrics=metrics, rng=rng)
    return Connected(Client(transport, mapper, cache, field_manager="test"), transport, cache, metrics)
