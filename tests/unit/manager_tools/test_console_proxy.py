"""Local proxy that adds a token to the requests of a browser to the console of a manager."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from apis.tutorial.v1.foo import Foo
from manager.kube.tls import Pem, TlsFiles
from manager.server.server import serve
from manager.tls.certificate import new_authority
from manager.tls.served import ServedCertificate
from manager.util.address import BindAddress
from manager.util.clock import now
from manager_tools.console_proxy import Proxy
from manager_tools.testing import World
from tests.support.reviews import access_by, api_server
from tests.support.served_pages import ServePages, Site, routes_of
from tests.unit.manager_console.test_pages import PATH, console_of, get, lonely, post


def always(token: str) -> Callable[[str | None], object]:
    async def ask(rejected: str | None) -> str:
        return f"Bearer {token}"

    return ask


@asynccontextmanager
async def visited(serve_pages: ServePages, proxy: Proxy) -> AsyncIterator[tuple[Site, dict[str, str]]]:
    """Serve the proxy; yield the proxy, and the headers of a browser that opened the one-time URL."""
    site = await serve_pages(proxy.pages(), proxy.pages())
    async with opened(site, proxy) as mine:
        yield site, mine


@asynccontextmanager
async def opened(site: Site, proxy: Proxy) -> AsyncIterator[dict[str, str]]:
    """Open the URL with the one-time key; yield the headers that a browser sends afterwards."""
    address = URL(proxy.address(f"{site.address}"))
    host = f"{address.host}:{site.address.port}"
    assert host.endswith(f".localhost:{site.address.port}")
    there = f"http://{site.address}{address.path_qs}"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        async with session.get(there, headers={"Host": host}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert "Domain" not in cookie
        async with session.get(there, headers={"Host": host}) as answer:
            assert answer.status == 403  # the key is valid only once
    yield {"Cookie": cookie.partition(";")[0], "Host": host, "Origin": f"http://{host}"}
    await proxy.aclose()


@asynccontextmanager
async def proxied(
    serve_pages: ServePages, asks: Callable[..., object]
) -> AsyncIterator[tuple[World, Site, dict[str, str]]]:
    """Run a manager with a console behind the proxy; yield the world, the proxy and the browser's headers."""
    async with lonely() as world:
        manager = await serve_pages(console_of(world, access_by(api_server())).routes())
        async with visited(serve_pages, Proxy(URL(f"http://{manager.address}"), asks)) as (site, mine):
            yield world, site, mine


async def test_console_proxy_pauses_and_resumes_an_object_with_an_authorized_token(serve_pages: ServePages):
    async with proxied(serve_pages, always("ann")) as (world, site, mine):
        status, text = await get(site, PATH, **mine)
        assert status == 200
        assert "There is no pod named jack" in text
        assert await post(site, f"{PATH}/pause", **mine) == (303, PATH)
        foo = await world.get(Foo, "lonely")
        assert "Paused" in await world.events(foo)
        _, text = await get(site, f"{PATH}?part=1", **mine)
        assert "does not reconcile the object until it is resumed" in text
        assert (await post(site, f"{PATH}/resume", **mine))[0] == 303


async def test_console_proxy_answers_403_when_the_token_lacks_the_right(serve_pages: ServePages):
    async with proxied(serve_pages, always("bob")) as (_, site, mine):
        for status, text in (await get(site, PATH, **mine), await post(site, f"{PATH}/pause", **mine)):
            assert status == 403
            assert "lonely" not in text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "{Host}"}, 403),
        ({"Host": "{Host}", "Cookie": "console=guessed"}, 403),
        ({"Host": "{Host}", "Cookie": "{Cookie}0"}, 403),
        ({"Cookie": "{Cookie}"}, 421),
        ({"Cookie": "{Cookie}", "Host": "localhost:{port}"}, 421),
        ({"Cookie": "{Cookie}", "Host": "evil.example.com:{port}"}, 421),
        ({"Cookie": "{Cookie}", "Host": "{Host}0"}, 421),
    ],
)
async def test_console_proxy_refuses_unknown_cookies_hosts_and_origins(
    serve_pages: ServePages, headers: dict[str, str], expected: int
):
    async with proxied(serve_pages, always("ann")) as (world, site, mine):
        given = {name: value.format(port=site.address.port, **mine) for name, value in headers.items()}
        for path in (PATH, "/", "/?key=", "/?key=guessed", f"{PATH}?part=1", "/static/idiomorph.min.js"):
            status, text = await get(site, path, **given)
            assert status == expected
            assert "lonely" not in text
        assert (await post(site, f"{PATH}/pause", **given))[0] == expected
        for origin in ("https://evil.example.com", "null", "", f"http://localhost:{site.address.port}"):
            assert (await post(site, f"{PATH}/pause", **{**mine, "Origin": origin}))[0] == 403
        foo = await world.get(Foo, "lonely")
        assert "Paused" not in await world.events(foo)


async def test_console_proxy_requests_a_new_token_when_the_manager_rejects_a_token(serve_pages: ServePages):
    asked: list[str | None] = []

    async def ask(rejected: str | None) -> str:
        asked.append(rejected)
        return "Bearer eve" if rejected is None else "Bearer ann"

    async with proxied(serve_pages, ask) as (_, site, mine):
        assert (await get(site, PATH, **mine))[0] == 200
        assert asked == [None, "Bearer eve"]


NAME = "operator-manager-webhook-service.zoo.svc"


@pytest.mark.parametrize("wrong", ["", "another's name", "another's authority"])
async def test_console_proxy_sends_the_token_only_when_the_server_certificate_is_trusted(wrong: str):
    ours, others = (new_authority("test", now(), timedelta(days=1)) for _ in range(2))
    authority, name = others if wrong == "another's authority" else ours, "evil" if "name" in wrong else NAME
    pair = authority.issue((name,), now(), timedelta(days=1))
    source: Any = SimpleNamespace(pair=lambda when: pair)
    asked: list[str] = []

    async def page(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers["Authorization"])
        return web.Response(text="hello")

    async with AsyncExitStack() as stack:
        there = BindAddress("127.0.0.1", 0)
        served = await stack.enter_async_context(
            serve("console", there, routes_of({"/": page}), certificate=ServedCertificate(source))
        )
        tls = TlsFiles(Pem("the CA bundle", data=ours.certificate)).build()
        proxy = Proxy(URL(f"https://{served.address}"), always("ann"), tls, named=NAME)  # type: ignore[arg-type]
        here = await stack.enter_async_context(serve("proxy", there, routes_of(proxy.pages())))
        site = Site(await stack.enter_async_context(aiohttp.ClientSession()), here.address)
        async with opened(site, proxy) as mine:
            status, text = await get(site, "/", **mine)
    if wrong:
        assert (status, asked) == (502, [])
        assert "certificate" in text.lower()
    else:
        assert (status, text, asked) == (200, "hello", ["Bearer ann"])


async def test_console_proxy_answers_502_when_the_manager_does_not_answer(serve_pages: ServePages):
    proxy = Proxy(URL("http://127.0.0.1:1"), always("ann"))
    async with visited(serve_pages, proxy) as (site, mine):
        status, text = await get(site, "/", **mine)
        assert status == 502
        assert text.startswith("the manager at http://127.0.0.1:1 does not answer: ")
