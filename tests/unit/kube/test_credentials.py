from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from manager.kube.credentials import FOREVER, Credentials, FixedCredentials, Obtained, TokenFile
from manager.kube.errors import ConfigError


class Numbered(Credentials):
    """Gives "1", "2" and so on; fails, or takes its time, when told to."""

    def __init__(self, *, lifetime: float = 60.0, validity: float = FOREVER) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.validity = validity
        self.failing = False
        self.delay = 0.0
        self.calls: list[bool] = []

    async def obtain(self, *, rejected: bool) -> Obtained:
        self.calls.append(rejected)
        await asyncio.sleep(self.delay)
        if self.failing:
            raise ConfigError("out of order")
        return Obtained(str(len(self.calls)), self.lifetime, self.validity)

    async def header(self, *, rejected: str | None = None) -> str | None:
        return (await self.current(rejected=rejected)).header


@pytest.fixture
async def numbered() -> Numbered:
    return Numbered()


@pytest.mark.virtual_time
class TestRenewal:
    async def test_credentials_are_kept_for_their_lifetime(self, numbered: Numbered):
        assert [await numbered.header() for _ in range(3)] == ["1", "1", "1"]
        await asyncio.sleep(59)
        assert await numbered.header() == "1"
        await asyncio.sleep(1)
        assert await numbered.header() == "2"

    async def test_renewal_is_shared_by_concurrent_callers(self, numbered: Numbered):
        numbered.delay = 1
        assert await asyncio.gather(*(numbered.header() for _ in range(5))) == ["1"] * 5

    async def test_current_credentials_are_used_during_a_renewal(self, numbered: Numbered):
        await numbered.header()
        await asyncio.sleep(60)
        numbered.delay = 5
        renewal = asyncio.create_task(numbered.header())
        await asyncio.sleep(1)
        assert await numbered.header() == "1"
        assert await renewal == "2"
        assert await numbered.header() == "2"

    async def test_expired_credentials_are_not_used_during_a_renewal(self):
        numbered = Numbered(lifetime=50, validity=60)
        await numbered.header()
        await asyncio.sleep(61)
        numbered.delay = 5
        assert await asyncio.gather(numbered.header(), numbered.header()) == ["2", "2"]

    async def test_a_renewal_that_fails_leaves_the_earlier_ones_and_is_tried_again_later(
        self, numbered: Numbered
    ):
        await numbered.header()
        await asyncio.sleep(60)
        numbered.failing = True
        assert [await numbered.header() for _ in range(3)] == ["1", "1", "1"]
        assert len(numbered.calls) == 2
        numbered.failing = False
        await asyncio.sleep(3)
        assert await numbered.header() == "3"

    async def test_renewal_error_is_raised_when_there_are_no_earlier_credentials(self, numbered: Numbered):
        numbered.failing = True
        with pytest.raises(ConfigError, match="out of order"):
            await numbered.header()

    async def test_rejected_credentials_are_renewed_at_once(self, numbered: Numbered):
        await numbered.header()
        assert await numbered.header(rejected="1") == "2"
        assert numbered.calls == [False, True]

    async def test_rejections_of_the_same_credentials_share_one_renewal(self, numbered: Numbered):
        await numbered.header()
        numbered.delay = 1
        assert await asyncio.gather(*(numbered.header(rejected="1") for _ in range(5))) == ["2"] * 5
        assert await numbered.header(rejected="1") == "2"
        assert len(numbered.calls) == 2

    async def test_a_server_that_rejects_everything_does_not_cause_call_after_call(self, numbered: Numbered):
        header = await numbered.header()
        for _ in range(100):
            header = await numbered.header(rejected=header)
            await asyncio.sleep(0.3)
        assert len(numbered.calls) == 11

    async def test_waiting_caller_gets_credentials_when_the_first_caller_is_cancelled(
        self, numbered: Numbered
    ):
        numbered.delay = 1
        first, second = (asyncio.create_task(numbered.header()) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        assert await second == "2"


async def test_fixed_credentials_stay_the_same_when_rejected():
    fixed = FixedCredentials("Bearer x")
    assert (await fixed.current()).header == "Bearer x"
    assert (await fixed.current(rejected="Bearer x")).header == "Bearer x"
    assert (await FixedCredentials(None).current()).header is None


async def test_the_token_of_a_file_is_stripped_of_its_line_end(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("secret\n")
    obtained = await TokenFile(file, label="token").current()
    assert obtained.header == "Bearer secret"
    assert obtained.lifetime == 60


@pytest.mark.virtual_time
async def test_the_token_of_a_file_is_read_at_each_rejection(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("old")
    credentials = TokenFile(file, label="token")
    await credentials.current()
    seen = []
    for second in range(0, 10, 2):
        if second == 8:
            file.write_text("new")
        seen.append((await credentials.current(rejected="Bearer old")).header)
        await asyncio.sleep(2)
    assert seen == ["Bearer old"] * 4 + ["Bearer new"]


async def test_a_token_is_read_however_busy_the_threads_of_reconcilers_are(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("secret")
    over = threading.Event()
    busy = [asyncio.create_task(asyncio.to_thread(over.wait)) for _ in range(50)]
    try:
        async with asyncio.timeout(10):
            assert (await TokenFile(file, label="token").current()).header == "Bearer secret"
    finally:
        over.set()
        await asyncio.gather(*busy)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b" \n", "is empty"), (b"\xff", "one line"), (b"a\nb", "one line")],
)
async def test_a_token_file_that_holds_no_token_is_an_error(
    tmp_path: Path, content: bytes | None, message: str
):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        await TokenFile(file, label="tokenFile").current()
    assert str(caught.value).startswith(f"tokenFile: {file}")
