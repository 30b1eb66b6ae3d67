from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from structlog.testing import capture_logs

from manager.tls import CertificateUnusable, KeyPair, ServedCertificate, served

Pairs = tuple[KeyPair, KeyPair]


class Shelf:
    """A source that has what the test puts there."""

    def __init__(self, item: KeyPair | Exception) -> None:
        self.item = item
        self.looks = 0
        self._looked = asyncio.Condition()
        self._loop = asyncio.get_running_loop()

    def __str__(self) -> str:
        return "shelf"

    def pair(self, now: datetime) -> KeyPair:
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._count()))
        if isinstance(self.item, Exception):
            raise self.item
        return self.item

    async def looked_at(self, times: int) -> None:
        """Return when it has been looked at that often from now on, and the last look has had its effect."""
        until = self.looks + times + 1
        async with self._looked:
            await self._looked.wait_for(lambda: self.looks >= until)

    async def _count(self) -> None:
        async with self._looked:
            self.looks += 1
            self._looked.notify_all()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.001)
    monkeypatch.setattr(served, "FIRST_CHECK_INTERVAL", 0.001)


async def test_without_a_certificate_to_begin_with_there_is_nothing_to_serve():
    certificate = ServedCertificate(Shelf(CertificateUnusable("tls.crt cannot be read")))
    with pytest.raises(CertificateUnusable, match=r"^tls.crt cannot be read$"):
        async with certificate.kept_current():
            pytest.fail("it was served")


async def test_a_certificate_that_cannot_be_used_is_told_with_where_it_is_from(pairs: Pairs):
    certificate = ServedCertificate(Shelf(KeyPair(pairs[0].certificates, pairs[1].key)))
    with pytest.raises(CertificateUnusable, match=r"^shelf: the key is not that of the certificate$"):
        async with certificate.kept_current():
            pytest.fail("it was served")


async def test_a_context_lasts_until_there_is_another_certificate(pairs: Pairs):
    shelf = Shelf(pairs[0])
    certificate = ServedCertificate(shelf)
    async with certificate.kept_current():
        first = certificate.context
        await shelf.looked_at(2)
        assert certificate.context is first
        shelf.item = pairs[1]
        await shelf.looked_at(2)
        second = certificate.context
        assert second is not first


async def test_half_an_exchange_keeps_the_earlier_certificate_and_is_told_once(pairs: Pairs):
    shelf = Shelf(pairs[0])
    certificate = ServedCertificate(shelf)
    with capture_logs() as lines:
        async with certificate.kept_current():
            first = certificate.context
            shelf.item = KeyPair(pairs[1].certificates, pairs[0].key)
            await shelf.looked_at(3)
            assert certificate.context is first
            shelf.item = pairs[1]
            await shelf.looked_at(2)
            assert certificate.context is not first
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["error"] for line in warnings] == ["shelf: the key is not that of the certificate"]


async def test_trouble_that_comes_again_is_told_again(pairs: Pairs):
    shelf = Shelf(pairs[0])
    with capture_logs() as lines:
        async with ServedCertificate(shelf).kept_current():
            for item in (OSError("gone"), pairs[0], ValueError("odd"), pairs[0], OSError("gone")):
                shelf.item = item
                await shelf.looked_at(2)
    errors = [line["error"] for line in lines if line["log_level"] == "warning"]
    assert errors == ["OSError('gone')", "ValueError('odd')", "OSError('gone')"]


async def test_nothing_is_looked_at_after_the_end(pairs: Pairs):
    shelf = Shelf(pairs[0])
    async with ServedCertificate(shelf).kept_current():
        await shelf.looked_at(1)
    looks = shelf.looks
    await asyncio.sleep(0.02)
    assert shelf.looks <= looks + 1


async def test_a_certificate_that_is_yet_to_be_made_is_waited_for(pairs: Pairs):
    shelf = Shelf(CertificateUnusable("the Secret is empty"))
    certificate = ServedCertificate(shelf)
    assert certificate.problem == "no certificate has been looked for in shelf"
    with capture_logs() as lines:
        waiting = asyncio.create_task(certificate.obtained())
        await shelf.looked_at(3)
        assert certificate.problem == "the Secret is empty"
        assert not waiting.done()
        shelf.item = pairs[0]
        await waiting
    assert certificate.problem is None
    assert [line["event"] for line in lines] == [
        "waiting for a certificate",
        "serving this certificate from now on",
    ]
    async with certificate.kept_current():
        assert certificate.context is not None
