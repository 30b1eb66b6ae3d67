from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import pytest

from manager.telemetry.logs import LineWriter
from manager.telemetry.logs.writer import MAX_WAITING

PIPE_HOLDS = 64 * 1024
"""What Linux keeps for a pipe's reader; a write beyond that waits."""

MOST = 100 * (1024 + 64)
"""Bytes that wait at most: a hundred lines of a kilobyte, each with what it takes besides."""

GENEROUS = 30.0


class Ends:
    """A pipe and a writer into it."""

    def __init__(self, *, max_waiting: int = 1 << 20) -> None:
        self.reading, self.writing = os.pipe()
        self.writer = LineWriter(
            self.writing,
            dropped_line=lambda lines, size: b"dropped %d of %d" % (lines, size),
            max_waiting=max_waiting,
        )
        self._received = bytearray()

    def read_until(self, end: bytes) -> list[bytes]:
        while not self._received.endswith(end + b"\n"):
            self._received += os.read(self.reading, 1 << 20)
        return bytes(self._received).splitlines()

    def read_until_line(self, beginning: bytes) -> None:
        while not re.search(rb"^%b.*\n" % beginning, self._received, re.MULTILINE):
            self._received += os.read(self.reading, 1 << 20)

    def read_rest(self) -> list[bytes]:
        os.set_blocking(self.reading, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._received += os.read(self.reading, 1 << 20)
        return bytes(self._received).splitlines()

    def close(self) -> None:
        # Without a reader the thread gives up whatever it is still writing.
        os.close(self.reading)
        self.writer.close(GENEROUS)
        os.close(self.writing)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


@pytest.fixture
def narrow_ends() -> Iterator[Ends]:
    ends = Ends(max_waiting=MOST)
    yield ends
    ends.close()


def test_lines_come_out_whole_and_in_order(ends: Ends):
    for number in range(50):
        ends.writer.write(b"%d" % number)
    assert ends.read_until(b"49") == [b"%d" % number for number in range(50)]


def test_flush_waits_until_all_is_written(ends: Ends):
    ends.writer.write(b"one")
    assert ends.writer.flush(GENEROUS)
    assert os.read(ends.reading, 100) == b"one\n"


def test_a_reader_that_stalls_holds_up_nobody_and_learns_how_much_it_missed(narrow_ends: Ends):
    narrow_ends.writer.write(b"x" * (PIPE_HOLDS - 1))
    assert narrow_ends.writer.flush(GENEROUS)
    sent = [b"%04d" % number + b"." * 1020 for number in range(300)]
    for line in sent:
        narrow_ends.writer.write(line)
    assert not narrow_ends.writer.flush(0)
    narrow_ends.read_until_line(b"dropped ")
    assert narrow_ends.writer.flush(GENEROUS)
    _, *lines = narrow_ends.read_rest()
    [told] = [line for line in lines if line.startswith(b"dropped ")]
    lines.remove(told)
    assert lines == sent[: len(lines)]
    missed = len(sent) - len(lines)
    assert 100 <= len(lines) < 200
    assert told == b"dropped %d of %d" % (missed, missed * 1024)


def test_line_writer_limits_the_bytes_of_waiting_lines(narrow_ends: Ends):
    narrow_ends.writer.write(b"x" * (PIPE_HOLDS - 1))
    assert narrow_ends.writer.flush(GENEROUS)
    for _ in range(10):
        narrow_ends.writer.write(b"y" * (MOST // 2))
    narrow_ends.read_until_line(b"dropped 9 of %d" % (9 * MOST // 2))
    narrow_ends.writer.write(b"and on")
    assert narrow_ends.read_until(b"and on")


@pytest.mark.timeout(30)
def test_line_writer_keeps_at_most_8_mb_waiting():
    with contextlib.closing(Ends(max_waiting=MAX_WAITING)) as ends:
        for _ in range(12):
            ends.writer.write(b"x" * 1024 * 1024)
        ends.read_until_line(b"dropped [45] of ")  # one may be on its way


def test_a_line_larger_than_the_pipe_comes_out_whole(ends: Ends):
    large = b"y" * (3 * PIPE_HOLDS)
    ends.writer.write(large)
    ends.writer.write(b"end")
    assert ends.read_until(b"end") == [large, b"end"]


def test_a_descriptor_that_does_not_wait_still_gets_everything(ends: Ends):
    os.set_blocking(ends.writing, False)
    large = b"z" * (3 * PIPE_HOLDS)
    ends.writer.write(large)
    ends.writer.write(b"end")
    assert ends.read_until(b"end") == [large, b"end"]


def test_a_reader_that_left_does_no_harm():
    ends = Ends()
    os.close(ends.reading)
    ends.writer.write(b"nobody")
    assert ends.writer.flush(GENEROUS)
    ends.writer.close(GENEROUS)
    os.close(ends.writing)


def test_closing_writes_what_waits_and_lines_after_it_go_out_at_once(ends: Ends):
    ends.writer.write(b"before")
    ends.writer.close(GENEROUS)
    ends.writer.write(b"after")
    assert ends.writer.flush(0)
    assert ends.read_until(b"after") == [b"before", b"after"]
