from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import pytest

from manager.telemetry.logs import LogFormat, configured, get_logger


def written(call: Callable[[], object], log_format: LogFormat, *, terminal: bool = False) -> str:
    reading, writing = os.openpty() if terminal else os.pipe()
    try:
        with configured(log_format=log_format, fd=writing):
            call()
    finally:
        os.close(writing)
    # A terminal passes on what is written in parts, and its end is an error.
    with os.fdopen(reading, "rb", buffering=0) as end, contextlib.suppress(OSError):
        parts = list[bytes]()
        while part := end.read(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def hello() -> None:
    get_logger("cache").warning("hello there", kind="Pod", reason="two words")


def test_a_console_line_is_readable_without_colours_when_it_is_no_terminal():
    line = written(hello, "console")
    assert "\x1b" not in line
    assert "warn" in line
    assert "hello there" in line
    assert "[cache]" in line
    assert line.rstrip().endswith("kind=Pod reason='two words'")


def test_an_exception_is_shown_below_its_line():
    def call() -> None:
        get_logger("x").error("failed", exc_info=ValueError("wrong"))

    first, *rest = written(call, "console").splitlines()
    assert "failed" in first
    assert rest[-1] == "  ValueError: wrong"


def test_a_stack_is_shown_below_its_line_and_nothing_in_it_looks_like_another():
    def call() -> None:
        get_logger("x").error("ended", stack="task a:\n  sleep()\n2026-11-21 [error] \x1b[2J")

    first, *rest = written(call, "console").splitlines()
    assert "ended" in first
    assert rest == ["  task a:", "    sleep()", r"  2026-11-21 [error] \x1b[2J"]


def test_auto_is_json_where_there_is_no_terminal():
    assert written(hello, "auto").startswith('{"ts":')


def test_auto_is_a_coloured_console_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = written(hello, "auto", terminal=True)
    assert "\x1b" in line
    assert "hello there" in line


def test_auto_format_writes_no_colours_when_no_color_is_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in written(hello, "auto", terminal=True)


FORGED = "x\n2026-11-21T08:31:02.123Z [error    ] the lease is lost\r\x1b[2J\u2028\x85"


@pytest.mark.parametrize("terminal", [False, True])
def test_console_format_escapes_forged_lines_in_messages_fields_and_errors(terminal: bool):
    def call() -> None:
        log = get_logger("x")
        log.info(FORGED, user=FORGED, names=[FORGED], short="\x1b[2J")
        try:
            raise ValueError(FORGED)
        except ValueError as error:
            log.error("failed", exc_info=error)  # noqa: TRY400 - as libraries' records come

    text = written(call, "console", terminal=terminal).replace("\r\n", "\n")  # as a terminal has it
    assert not {"\r", "\x1b[2J", "\u2028", "\x85"} & {*text, *(["\x1b[2J"] if "\x1b[2J" in text else [])}
    first, second, *rest = text.rstrip("\n").split("\n")
    assert first.count(r"x\n2026-11-21") == 3
    assert "failed" in second
    assert rest
    assert all(line.startswith("  ") for line in rest)
