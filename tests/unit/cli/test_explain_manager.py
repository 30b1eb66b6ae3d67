"""What `explain` makes of whoever answers where a manager is expected: anybody may have taken its port."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from apis.petstore.v1beta1.pet import Pet
from controllers.main import PROGRAM
from manager.api import ObjectKey
from manager.cli import explain
from manager.cli.explain import ExplainArguments
from manager.kube.errors import ConfigError

REX = ObjectKey("zoo", "rex")
RUN = {
    **dict.fromkeys(("outcome", "started", "why", "error", "error_type", "failure", "awaits"), ""),
    "seconds": 0.1,
    "spared": 0,
    "requests": [{"verb": "get", "path": "/api", "code": 200}],
}
CONTROLLER = {
    "controller": "pet",
    "state": "running",
    "uid": None,
    "running": None,
    "next": None,
    "runs": [RUN],
}


async def asked(manager: str, **flags: str) -> tuple[list[dict[str, object]], str]:
    arguments = replace(ExplainArguments("pet", "rex", "zoo"), manager=manager, **flags)
    return await explain._ask(PROGRAM, arguments, Pet, REX, "a-uid")


@asynccontextmanager
async def answering(*pieces: bytes, ends: bool = True) -> AsyncIterator[str]:
    """Whoever connects gets these, and then the end or a byte now and then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            for piece in pieces:
                writer.write(piece)
            while not ends:
                await asyncio.sleep(0.02)
                writer.write(b" ")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def page(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_a_manager_tells_its_runs():
    async with answering(page(orjson.dumps({"controllers": [CONTROLLER]}))) as manager:
        assert await asked(manager) == ([CONTROLLER], "")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"5", b"{}", b'{"controllers":null}', b'{"controllers":[1,2]}', b"[" * 100_000),
        *(
            orjson.dumps({"controllers": [{**CONTROLLER, name: value}]})
            for name, value in (("runs", [1]), ("uid", 5), ("next", 1), ("next", {"at": 1, "why": []}))
        ),
        *(orjson.dumps({"controllers": [{**CONTROLLER, "runs": [{**RUN, name: None}]}]}) for name in RUN),
        orjson.dumps({"controllers": [{name: CONTROLLER[name] for name in CONTROLLER if name != "runs"}]}),
    ],
)
async def test_an_answer_that_is_no_manager_s_is_none(body: bytes):
    async with answering(page(body)) as manager:
        controllers, why = await asked(manager)
    assert controllers == []
    assert why.startswith(f"No manager answers at {manager} (")


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"]
)
async def test_an_answer_that_does_not_end_is_not_waited_for(begin: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain, "_PATIENCE", 0.2)
    async with answering(begin, ends=False) as manager:
        controllers, why = await asked(manager)
    assert (controllers, why.startswith("No manager answers at")) == ([], True)


async def test_an_answer_is_of_a_bounded_length(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain, "_LONGEST", 1000)
    async with answering(page(b" " * 2000)) as manager:
        assert "longer than 1000 bytes" in (await asked(manager))[1]


async def test_a_redirect_and_a_refusal_are_told_by_their_number():
    for status in (302, 403, 404):
        head = b"HTTP/1.1 %d No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" % status
        async with answering(head) as manager:
            assert f"answers {status}:" in (await asked(manager))[1]


async def test_who_does_not_listen_is_no_manager():
    async with answering() as manager:
        pass
    assert (await asked(manager))[1].startswith(f"No manager answers at {manager} (")


@pytest.mark.parametrize("flag", ["manager_token_file", "manager_ca_file"])
@pytest.mark.parametrize("kind", ["endless", "pipe", "missing"])
async def test_a_file_that_cannot_be_used_is_told_with_its_flag(flag: str, kind: str, tmp_path: Path):
    file = Path("/dev/zero") if kind == "endless" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(file)
    with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')}: {file} cannot be read"):
        await asked("https://127.0.0.1:1", **{flag: str(file)})
