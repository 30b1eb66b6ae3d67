"""`/readyz` over HTTP: kopf's own endpoint tells only that the process lives."""

from __future__ import annotations

from typing import Any

import kopf
from aiohttp import web


def register(registry: kopf.OperatorRegistry, address: str) -> None:
    """Answer at `address`, HOST:PORT; "0" is nowhere.

    kopf runs no handler, of whatever resource, before all indexes are filled; and there is always a
    namespace. So its first handler tells that they are.
    """
    if address == "0":
        return
    host, _, port = address.rpartition(":")
    ready = False

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=200 if ready else 503)

    app = web.Application()
    app.router.add_get("/readyz", answer)
    runner = web.AppRunner(app, handle_signals=False)

    @kopf.on.startup(registry=registry)
    async def serve(**_: Any) -> None:
        await runner.setup()
        await web.TCPSite(runner, host, int(port)).start()

    @kopf.on.event("", "v1", "namespaces", id="indexed", registry=registry)
    async def indexed(**_: Any) -> None:
        nonlocal ready
        ready = True

    @kopf.on.cleanup(registry=registry)
    async def close(**_: Any) -> None:
        await runner.cleanup()
