"""However the network cuts up an answer, it is the same answer."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from manager.kube.connection import Connection
from manager.kube.errors import ConnectionLost

Outcome = tuple[int, dict[str, str], bytes, str]

PRELUDES = [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\nLink: b\r\n\r\n"]
HEADERS = [b"", b"Warning: 299 - a\r\nwarning: 299 - b\r\n", b"Connection: close\r\n", b"X:\r\n"]

bodies = st.lists(st.binary(min_size=1, max_size=40), max_size=5)


def chunked(parts: list[bytes], extension: bytes, trailer: bytes) -> bytes:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return b"Transfer-Encoding: chunked\r\n\r\n%b0%b\r\n%b\r\n" % (chunks, extension, trailer)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Draw the bytes of one answer, which may be malformed."""
    parts = draw(bodies)
    whole = b"".join(parts)
    framings = [
        b"Content-Length: %d\r\n\r\n%b" % (len(whole), whole),
        b"\r\n" + whole,  # it ends with the connection
        b"Content-Length: %d\r\n\r\n%b" % (len(whole) + 1, whole),
        b"Content-Length: -1\r\n\r\n" + whole,
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + whole,
        b"Content-Length: 1\r\n" + chunked(parts, b"", b""),
        chunked(parts, draw(st.sampled_from([b"", b";a=b"])), draw(st.sampled_from([b"", b"Late: 1\r\n"]))),
        chunked(parts, b"g", b""),
    ]
    version = draw(st.sampled_from([b"1.1", b"1.0"]))
    status = draw(st.sampled_from([b"200 OK", b"404 ", b"204 No Content", b"304 Not Modified"]))
    head = b"HTTP/%b %b\r\n%b" % (version, status, draw(st.sampled_from(HEADERS)))
    return draw(st.sampled_from(PRELUDES)) + head + draw(st.sampled_from(framings))


class Line(asyncio.Transport):
    """Takes whatever is sent, and can be closed."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Discard the data."""

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close


async def outcome_of(pieces: list[bytes]) -> Outcome:
    """Status, headers, body and error of an answer that arrives so, and after which the server hangs up."""
    transport = Line()
    connection = Connection()
    connection.connection_made(transport)
    asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", None))
    await asyncio.sleep(0)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
    connection.connection_lost(None)
    try:
        answer = await asking
    except ConnectionLost:
        return (0, {}, b"", "no answer")
    assert 200 <= answer.status <= 999
    came, error = b"", ""
    try:
        async for chunk in answer.chunks():
            assert chunk
            came += chunk
    except ConnectionLost:
        error = "in the middle"
    return (answer.status, dict(answer.headers), came, error)


@given(answer=answers(), data=st.data())
def test_an_answer_in_any_pieces_is_the_same_answer(answer: bytes, data: st.DataObject):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(answer) - 1))))
    pieces = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    single = [answer[at : at + 1] for at in range(len(answer))]

    async def compare() -> None:
        whole = await outcome_of([answer])
        assert await outcome_of(pieces) == whole
        assert await outcome_of(single) == whole

    asyncio.run(compare())


@given(prelude=st.sampled_from(PRELUDES), status=st.sampled_from([200, 201, 404, 500]), parts=bodies)
def test_a_good_answer_is_what_was_sent(prelude: bytes, status: int, parts: list[bytes]):
    whole = b"".join(parts)
    head = prelude + b"HTTP/1.1 %d Whatever\r\n" % status

    async def compare() -> None:
        for rest in (
            b"Content-Length: %d\r\n\r\n%b" % (len(whole), whole),
            chunked(parts, b";x", b"Y: z\r\n"),
        ):
            came, headers, body, error = await outcome_of([head + rest])
            assert (came, body, error) == (status, whole, "")
            assert headers.keys() <= {"Content-Length", "Transfer-Encoding"}

    asyncio.run(compare())


PIECES = [
    b"HTTP/1.1 ",
    b"HTTP/9",
    b"100 Continue\r\n\r\n",
    b"101 x\r\n",
    b"204 x\r\n",
    b"\r\n",
    b"\xff",
    b"\0",
    b":",
]
PIECES += [b"Content-Length: %b\r\n" % number for number in (b"5", b"-1", b"9" * 30)]
PIECES += [b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"f" * 20 + b"\r\n", b"hello"]
PIECES += [b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: x\r\n", b"a: b\r\n"]

garbled = st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=12).map(b"".join)


@given(garbage=garbled | st.binary(max_size=200))
def test_connection_has_the_same_outcome_for_garbage_whole_or_byte_by_byte(garbage: bytes):
    async def compare() -> None:
        for before in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
            single = [bytes([byte]) for byte in before + garbage]
            assert await outcome_of([before + garbage]) == await outcome_of(single)

    asyncio.run(compare())
