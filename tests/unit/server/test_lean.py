"""`manager.server.lean`, which reduces the cost of importing aiohttp; each test runs a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

_IMPORT = "import ssl, sys\nfrom manager.server import lean\nimport aiohttp\n"

_LEAVES_OUT = (
    _IMPORT
    + """
assert len(lean._made) == 2, "aiohttp creates its contexts in another way, and loads the authorities again"
assert all(type(each) is lean._LateContext for each in lean._made)
assert "frozenlist._frozenlist" not in sys.modules, "frozenlist has another name for its C code"
import frozenlist._frozenlist  # other code can still import it
assert "set_default_verify_paths" not in vars(ssl.SSLContext)
assert ssl.create_default_context().cert_store_stats()["x509_ca"] == 1
"""
)

_CONNECTS = (
    _IMPORT
    + """
import asyncio
from aiohttp import ClientConnectorCertificateError, ClientSession, web
from aiohttp.test_utils import TestServer

async def hello(request):
    return web.Response(text="hello")

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    app = web.Application()
    app.router.add_get("/", hello)
    server = TestServer(app, scheme="https", host="localhost")
    await server.start_server(ssl=context)
    async with ClientSession() as session:
        for checked in ({}, {"ssl": False}):
            try:
                async with session.get(server.make_url("/"), **checked) as answer:
                    print(await answer.text())
            except ClientConnectorCertificateError:
                print("not trusted")
    await server.close()
    assert not lean._made or all(type(each) is ssl.SSLContext for each in lean._made)

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""
)


def run(code: str, authority: trustme.CA, tmp_path: Path, *arguments: str) -> str:
    authority.cert_pem.write_to_path(str(trusted := tmp_path / "trusted.pem"))
    environ = {**os.environ, "SSL_CERT_FILE": str(trusted), "SSL_CERT_DIR": str(tmp_path / "none")}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_import_of_aiohttp_loads_no_certificate_authorities_and_no_frozenlist_extension(tmp_path: Path):
    run(_LEAVES_OUT, trustme.CA(), tmp_path)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_default_aiohttp_session_trusts_the_certificate_authorities_of_the_machine(
    tmp_path: Path, loop: str, *, is_trusted: bool
):
    authority = trustme.CA()
    issuer = authority if is_trusted else trustme.CA()
    issuer.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(served := tmp_path / "served.pem")
    )
    said = run(_CONNECTS, authority, tmp_path, str(served), loop)
    assert said.split("\n")[:2] == ["hello" if is_trusted else "not trusted", "hello"]
