from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from devcluster.faults import FaultControl, Match
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, User
from devcluster.storage import Key, Store
from devcluster.storage.records import Expired

pytestmark = pytest.mark.virtual_time

ADMIN = User("admin", ("system:masters",))


class Server:
    """Handler that records the requests that reach it, and streams five lines to a watch."""

    def __init__(self, user: User | None = ADMIN) -> None:
        self.store = Store()
        self.control = FaultControl(self.store, self._handle, lambda _: user)
        self.reached: list[str] = []
        self.closed = False
        self.handle = self.control.handle

    async def _handle(self, request: ApiRequest) -> ApiResponse:
        self.reached.append(request.method)
        if request.option("watch"):
            return ApiResponse(stream=self._lines())
        return ApiResponse.json({"ok": True})

    async def _lines(self) -> AsyncIterator[bytes]:
        try:
            yield b"one\ntwo\n"
            yield b"three\n"
            yield b"four\nfive\n"
        finally:
            self.closed = True


def get(path: str = "/api/v1/pods", **options: Any) -> ApiRequest:
    return ApiRequest(method="GET", path=path, **options)


async def read(response: ApiResponse, received: bytearray) -> None:
    async for chunk in response.stream:
        received += chunk


async def test_fail_fault_refuses_only_the_first_n_matching_requests():
    server = Server()
    number = server.control.add("fail", Match(path="pods$"), code=429, retry_after=3, times=2)
    assert (await server.handle(get("/api/v1/nodes"))).status == 200
    for _ in range(2):
        refused = await server.handle(get())
        assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
        assert orjson.loads(refused.body)["reason"] == "TooManyRequests"
    assert (await server.handle(get())).status == 200
    assert server.reached == ["GET", "GET"]
    assert server.control.remove(number).hits == 2


async def test_cut_fault_breaks_the_connection_before_or_after_the_request_is_handled():
    server = Server()
    server.control.add("cut-request", times=1)
    with pytest.raises(ConnectionCut):
        await server.handle(get())
    assert server.reached == []
    server.control.add("cut-answer", times=1)
    with pytest.raises(ConnectionCut):
        await server.handle(get())
    assert server.reached == ["GET"]


@pytest.mark.parametrize(
    ("fault", "lines", "expected"),
    [
        # cut-watch ends in the middle of the next line.
        ("cut-watch", 0, b"on"),
        ("cut-watch", 2, b"one\ntwo\nthr"),
        ("cut-watch", 3, b"one\ntwo\nthree\nfo"),
        ("stall-watch", 0, b""),
        ("stall-watch", 2, b"one\ntwo\n"),
        ("stall-watch", 4, b"one\ntwo\nthree\nfour\n"),
    ],
)
async def test_watch_fault_cuts_or_stalls_a_watch_after_n_lines(fault: Any, lines: int, expected: bytes):
    server = Server()
    server.control.add(fault, lines=lines)
    assert (await server.handle(get())).body == b'{"ok":true}\n'
    received = bytearray()
    response = await server.handle(get(query={"watch": ["true"]}))
    with pytest.raises(ConnectionCut if fault == "cut-watch" else TimeoutError):
        await asyncio.wait_for(read(response, received), 60 if fault == "cut-watch" else 0.05)
    assert received == expected
    assert server.closed or not expected  # a stream that sent nothing has not begun


async def test_delay_fault_delays_the_response():
    server = Server()
    server.control.add("delay", seconds=0.02)
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert (await server.handle(get())).status == 200
    assert loop.time() - before >= 0.02


async def test_fault_endpoint_creates_shows_and_removes_faults():
    handle = Server().handle
    body = b'{"do": "fail", "match": {"method": "GET", "userAgent": "curl"}, "code": 500, "times": 5}'
    made = await handle(ApiRequest(method="POST", path="/devcluster/faults", body=body))
    assert (made.status, orjson.loads(made.body)) == (201, {"number": 1})
    assert (await handle(get(headers={"user-agent": "curl/8"}))).status == 500
    (shown,) = orjson.loads((await handle(get("/devcluster/faults"))).body)["faults"]
    assert (shown["number"], shown["do"], shown["hits"]) == (1, "fail", 1)
    assert (await handle(ApiRequest(method="DELETE", path="/devcluster/faults/1"))).status == 200
    assert (await handle(ApiRequest(method="DELETE", path="/devcluster/faults/1"))).status == 404
    assert (await handle(get(headers={"user-agent": "curl/8"}))).status == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "Input data was truncated"),
        (b'{"do": "explode"}', "Invalid enum value 'explode' - at `$.do`"),
        (b'{"do": "fail", "times": "x"}', "Expected `int | null`, got `str` - at `$.times`"),
        (b'{"do": "fail", "code": 200}', "code must be between 400 and 599"),
        (b'{"do": "fail", "times": 0}', "times"),
        (b'{"do": "delay", "seconds": -1}', "seconds"),
        (b'{"do": "cut-watch", "lines": -1}', "lines"),
        (b'{"do": "fail", "match": {"path": "("}}', "path is not a regular expression"),
        (b'{"do": "fail", "tims": 1}', "unknown field `tims`"),
    ],
)
async def test_fault_endpoint_refuses_an_invalid_fault_and_names_its_mistake(body: bytes, message: str):
    handle = Server().handle
    answer = await handle(ApiRequest(method="POST", path="/devcluster/faults", body=body))
    assert answer.status == 400
    assert message in orjson.loads(answer.body)["message"]


@pytest.mark.parametrize(("user", "status"), [(None, 401), (User("bob", ("dev",)), 403)])
@pytest.mark.parametrize("path", ["faults", "history/expire"])
async def test_devcluster_endpoints_refuse_non_administrators(path: str, user: User | None, status: int):
    handle = Server(user).handle
    assert (await handle(ApiRequest(method="POST", path=f"/devcluster/{path}"))).status == status
    assert (await handle(get())).status == 200


async def test_history_expire_endpoint_makes_watches_from_earlier_versions_fail():
    server = Server()
    handle = server.handle
    server.store.create(Key("", "pods", "ns", "a"), {"metadata": {"name": "a"}})
    assert (await handle(ApiRequest(method="POST", path="/devcluster/history/expire"))).status == 200
    with pytest.raises(Expired):
        server.store.watch("", "pods", since=1)
    assert (await handle(get("/devcluster/unknown"))).status == 404
