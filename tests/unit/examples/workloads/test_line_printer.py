from __future__ import annotations

import asyncio
import os

import pytest

from examples.workloads.line_printer import WAITING, LinePrinter


async def test_lines_are_printed_in_their_order():
    reading, writing = os.pipe()
    printer = LinePrinter(writing)
    running = asyncio.create_task(printer.run())
    expected = [f"line {number}" for number in range(3 * WAITING)]
    for line in expected:
        await printer.print(line.encode())
    received = b""
    while received.count(b"\n") < len(expected):
        received += await asyncio.to_thread(os.read, reading, 65536)
    running.cancel()
    await asyncio.wait([running])
    os.close(reading)
    os.close(writing)
    assert received.decode().splitlines() == expected


async def test_line_printer_raises_broken_pipe_when_reader_is_gone():
    reading, writing = os.pipe()
    os.close(reading)
    printer = LinePrinter(writing)
    await printer.print(b"for nobody")
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(printer.run(), 5)
    os.close(writing)
