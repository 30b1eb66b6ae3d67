"""A client without a manager, for programs of one's own."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from manager.cache import Cache
from manager.client.client import Client
from manager.kube.config import load_config
from manager.kube.http_wire import HttpWire
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics


@asynccontextmanager
async def connect(
    field_manager: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Client]:
    """Connect to one cluster, for the length of the context.

        async with connect("my-program") as client:
            pods = await client.uncached.list(Pod, namespace="default")

    It finds the cluster as kubectl does: by the `kubeconfig` file if given, else the files in KUBECONFIG,
    else the pod this runs in, else `~/.kube/config`; in a file it uses `context`, else the current one. It
    sends nothing before the first request.

    No cache runs, so reads are `client.uncached` and `client.watch`; the cached ones raise NotCached.

    Args:
        field_manager: the name of the program, under which its writes are booked; its user agent, too.
        kubeconfig: path of a kubeconfig file.
        context: a context of the kubeconfig.
        environ: the process's environment.

    Raises:
        ConfigError: there is no usable configuration; one line that says what is wrong with which file.
    """
    config = await load_config(kubeconfig=kubeconfig, context=context, environ=environ)
    rng, metrics = random.Random(), Metrics()
    transport = Transport(HttpWire(config), metrics=metrics, rng=rng, user_agent=field_manager)
    try:
        mapper = RestMapper(transport)
        cache = Cache(transport, mapper, field_manager=field_manager, metrics=metrics, rng=rng)
        yield Client(transport, mapper, cache, field_manager=field_manager)
    finally:
        await transport.aclose()
