"""`/readyz` over HTTP: kopf's own endpoint reports only that the process is alive."""

from __future__ import annotations

from typing import Any

import kopf
from aiohttp import web


def register(registry: kopf.OperatorRegistry, address: str) -> None:
    """Serve `/readyz` at `address`, HOST:PORT; "0" serves nothing.

    kopf runs handlers only after all indexes are filled. A namespace always exists, so the first call of a
    namespace's handler shows that the indexes are filled.
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
