from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from devcluster.admission.client import WebhookClient, WebhookFailed
from devcluster.storage import Store
from tests.support.certificates import Authority
from tests.support.webhook_server import WebhookServer


class Webhook:
    """Webhook server that sends its response in several chunks."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.port = 0
        self.done = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = sum(map(len, self.parts))
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size
        )
        with contextlib.suppress(ConnectionError):
            for part in self.parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.done.set()


@pytest.fixture
async def webhook() -> AsyncIterator[Webhook]:
    webhook = Webhook()
    server = await asyncio.start_server(webhook.answer, "127.0.0.1", 0)
    webhook.port = server.sockets[0].getsockname()[1]
    yield webhook
    await webhook.done.wait()
    server.close()
    await server.wait_closed()


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    client = WebhookClient(Store())
    yield client
    await client.close()


async def test_webhook_client_reads_a_chunked_response_to_the_end(client: WebhookClient, webhook: Webhook):
    webhook.parts = [b'{"a":', b'"b"', b"}"]
    answer = await client.call({"url": f"http://127.0.0.1:{webhook.port}/"}, {}, 5)
    assert answer == {"a": "b"}


async def test_webhook_client_stops_reading_an_endless_response(
    client: WebhookClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.admission.client._ANSWER_LIMIT", 1000)
    webhook.parts = [b"x" * 900] * 3
    with pytest.raises(WebhookFailed, match="the answer is too large"):
        await client.call({"url": f"http://127.0.0.1:{webhook.port}/"}, {}, 5)


REVIEW = {"apiVersion": "v1", "kind": "Review", "request": {"uid": "u"}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WebhookServer]:
    """Run a webhook server. Request it before `client`: it waits until the client's event loop has ended."""
    with WebhookServer(tmp_path) as running:
        yield running


async def test_webhook_client_reuses_connections(served: WebhookServer, client: WebhookClient):
    for _ in range(5):
        await client.call(served.client_config("x"), REVIEW, 5)
    assert len(served.callers["x"]) == 1


def come_again(served: WebhookServer) -> None:
    """Close all kept-alive connections."""
    with served.down():
        pass


async def test_webhook_client_trusts_only_the_authorities_of_the_ca_bundle(
    served: WebhookServer, client: WebhookClient
):
    now, following = served.authority, Authority("the next")

    async def call(*authorities: Authority) -> None:
        bundle = base64.b64encode(b"".join(each.pem for each in authorities)).decode()
        await client.call({**served.client_config("x"), "caBundle": bundle}, REVIEW, 5)

    await call(now, following)
    await asyncio.to_thread(served.renew, following)
    await call(now, following)  # on the connection that was kept
    await asyncio.to_thread(come_again, served)
    await call(now, following)
    await call(following)
    with pytest.raises(WebhookFailed, match="certificate signed by unknown authority"):
        await call(now)


async def test_webhook_client_trusts_an_authority_without_key_identifiers(
    served: WebhookServer, client: WebhookClient, monkeypatch: pytest.MonkeyPatch
):
    identifiers = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
    add = x509.CertificateBuilder.add_extension

    def add_others(builder: x509.CertificateBuilder, extension: x509.ExtensionType, critical: bool) -> Any:
        return builder if isinstance(extension, identifiers) else add(builder, extension, critical)

    monkeypatch.setattr(x509.CertificateBuilder, "add_extension", add_others)
    plain = Authority("plain")
    await asyncio.to_thread(served.renew, plain)
    await asyncio.to_thread(come_again, served)
    bundle = base64.b64encode(plain.pem).decode()
    assert await client.call({**served.client_config("x"), "caBundle": bundle}, REVIEW, 5)
