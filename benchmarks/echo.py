"""The minimum cost of an HTTPS response with aiohttp: a server that returns what it receives.

    python -m benchmarks.echo FOLDER

It writes FOLDER/kubeconfig for the clients, and ignores tokens.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

import uvloop
from aiohttp import web

from devcluster.access.certificates import Authority
from tests.support.kubeconfig import Credentials


async def serve(folder: Path) -> None:
    """Serve until the process ends."""
    authority = Authority.create()
    certificate, key = authority.issue("echo", hosts=("127.0.0.1",))
    pem = folder / "echo.pem"
    pem.write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    runner = web.ServerRunner(web.Server(_echo))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    credentials = Credentials(server=f"https://127.0.0.1:{port}", authority=authority.identity[0])
    credentials.write(folder / "scratch")
    # The rename makes the complete file appear at once.
    (folder / "scratch").rename(folder / "kubeconfig")
    await asyncio.Event().wait()


async def _echo(request: web.BaseRequest) -> web.Response:
    return web.Response(body=await request.read(), content_type="application/json")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(serve(Path(sys.argv[1])))
