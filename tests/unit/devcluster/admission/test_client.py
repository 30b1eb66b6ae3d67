from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from devcluster.admission.client import WebhookClient, WebhookFailed
from devcluster.storage import Store
from tests.support.certificates import Authority
from tests.support.webhook_server import WebhookServer


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    client = WebhookClient(Store())
    yield client
    await client.close()


REVIEW = {"apiVersion": "v1", "kind": "Review", "request": {"uid": "u"}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WebhookServer]:
    """Run a webhook server; tests must request it before `client`, so that the client closes first."""
    with WebhookServer(tmp_path) as running:
        yield running


async def test_webhook_client_refuses_a_response_above_its_size_limit(
    served: WebhookServer, client: WebhookClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.admission.client._ANSWER_LIMIT", 1000)
    served.admit = lambda *_: {"status": {"message": "x" * 2000}}
    with pytest.raises(WebhookFailed, match="the answer is too large"):
        await client.call(served.client_config("x"), REVIEW, 5)


async def test_webhook_client_uses_one_connection_for_all_calls(served: WebhookServer, client: WebhookClient):
    for _ in range(5):
        await client.call(served.client_config("x"), REVIEW, 5)
    assert len(served.callers["x"]) == 1


def close_connections(served: WebhookServer) -> None:
    """Close all idle connections of the server, so that clients connect again."""
    with served.down():
        pass


async def test_webhook_client_trusts_only_certificate_authorities_in_the_ca_bundle(
    served: WebhookServer, client: WebhookClient
):
    now, following = served.authority, Authority("the next")

    async def call(*authorities: Authority) -> None:
        bundle = base64.b64encode(b"".join(each.pem for each in authorities)).decode()
        await client.call({**served.client_config("x"), "caBundle": bundle}, REVIEW, 5)

    await call(now, following)
    await asyncio.to_thread(served.renew, following)
    await call(now, following)  # on the same connection
    await asyncio.to_thread(close_connections, served)
    await call(now, following)
    await call(following)
    with pytest.raises(WebhookFailed, match="certificate signed by unknown authority"):
        await call(now)


async def test_webhook_client_trusts_a_ca_certificate_without_key_identifiers(
    served: WebhookServer, client: WebhookClient, monkeypatch: pytest.MonkeyPatch
):
    identifiers = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
    add = x509.CertificateBuilder.add_extension

    def add_others(builder: x509.CertificateBuilder, extension: x509.ExtensionType, critical: bool) -> Any:
        return builder if isinstance(extension, identifiers) else add(builder, extension, critical)

    monkeypatch.setattr(x509.CertificateBuilder, "add_extension", add_others)
    plain = Authority("plain")
    await asyncio.to_thread(served.renew, plain)
    await asyncio.to_thread(close_connections, served)
    bundle = base64.b64encode(plain.pem).decode()
    assert await client.call({**served.client_config("x"), "caBundle": bundle}, REVIEW, 5)


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("h:99999", "dial tcp: address 99999: invalid port"),
        ("a..b", "dial tcp: lookup a..b: no such host"),
        ("a" * 300, "dial tcp: lookup a*: no such host"),
    ],
)
async def test_webhook_client_raises_webhook_failed_for_an_unusable_host(
    client: WebhookClient, host: str, problem: str
):
    with pytest.raises(WebhookFailed, match=problem):
        await client.call({"url": f"https://{host}/"}, REVIEW, 5)
