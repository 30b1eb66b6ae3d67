"""Structured logs: their lines, their configuration, and the thread that writes them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from manager.telemetry.logs import (
    MAX_WAITING,
    BridgeHandler,
    LineWriter,
    LogFormat,
    LogLevel,
    configured,
    get_logger,
)


def written(
    call: Callable[[], object], log_format: LogFormat, *, level: LogLevel = "info", terminal: bool = False
) -> str:
    """Return the text that is logged during `call`, to a terminal or to a pipe."""
    reading, writing = os.openpty() if terminal else os.pipe()
    try:
        with configured(level=level, log_format=log_format, fd=writing):
            call()
    finally:
        os.close(writing)
    # A terminal delivers writes in parts, and its end is an error.
    with os.fdopen(reading, "rb", buffering=0) as end, contextlib.suppress(OSError):
        parts = list[bytes]()
        while part := end.read(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def logged(call: Callable[[], object], level: LogLevel = "info") -> list[dict[str, Any]]:
    """Return the log lines of `call`, parsed from their JSON format."""
    return [json.loads(line) for line in written(call, "json", level=level).splitlines()]


def test_log_line_has_time_level_logger_and_message_before_its_fields():
    [line] = logged(lambda: get_logger("cache", kind="Pod").info("synced", objects=3))
    assert list(line) == ["ts", "level", "logger", "msg", "kind", "objects"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {"level": "info", "logger": "cache", "msg": "synced", "kind": "Pod", "objects": 3}


def test_json_line_keeps_its_own_fields_when_fields_of_the_call_have_the_same_names():
    log = get_logger("x", level="gold")
    [line] = logged(lambda: log.info("paid", ts="then", msg="thanks", logger="y", error="none"))
    assert re.fullmatch(r"20\d\d-\S+Z", line.pop("ts"))
    own = {"level": "info", "logger": "x", "msg": "paid"}
    assert line == own | {"level_": "gold", "ts_": "then", "msg_": "thanks", "logger_": "y", "error": "none"}


@pytest.mark.parametrize("level", ["debug", "info", "warn", "error"])
def test_log_omits_lines_below_the_log_level(level: LogLevel):
    def call() -> None:
        log, library = get_logger("x"), logging.getLogger("lib")
        for number, tell in enumerate((log.debug, log.info, log.warning, log.error)):
            tell("ours")
            library.log(10 * number + 15, "between two levels, it counts as the one below")

    levels = ["debug", "info", "warn", "error"]
    expected = [each for each in levels[levels.index(level) :] for _ in range(2)]
    assert [line["level"] for line in logged(call, level)] == expected


@pytest.mark.parametrize("short", [{}, {"error": "in short"}])
def test_logged_exception_has_its_message_and_stack(short: dict[str, str]):
    def call() -> None:
        try:
            raise ValueError("wrong")
        except ValueError:
            get_logger("x").exception("failed", **short)

    [line] = logged(call)
    assert (line["level"], line["error"]) == ("error", short.get("error", "wrong"))
    assert line["stacktrace"].startswith("Traceback")
    assert "ValueError: wrong" in line["stacktrace"]


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 2**70, "\ud800", {"deep": {"er": object()}}, b"\xff", ValueError("x")]
)
def test_json_format_writes_a_line_when_a_value_has_no_json_form(value: object):
    [line] = logged(lambda: get_logger("x").info("odd", value=value))
    assert line["msg"] == "odd"
    assert "value" in line


def test_json_format_escapes_unprintable_characters():
    odd = "ö 🐕 \n \x1b[2J \x7f \x85 \x9b2J \u2028 \u202e \U000e0001"
    log = get_logger("webhook", **{odd: [odd]})
    text = written(lambda: log.info(odd, user=odd, exc_info=ValueError(odd)), "json")
    assert text.removesuffix("\n").isprintable()
    assert "ö 🐕" in text
    line = json.loads(text)
    assert (line["msg"], line["user"], line["error"], line[odd]) == (odd, odd, odd, [odd])


@pytest.mark.parametrize(("value", "message"), [(3, "got 3"), ("x", "'got %d' % ('x',)")])
def test_stdlib_log_record_is_logged_even_with_invalid_format_arguments(value: object, message: str):
    record = logging.LogRecord("some.library", logging.WARNING, __file__, 1, "got %d", (value,), None)
    [line] = logged(lambda: BridgeHandler().handle(record))
    assert line | {"ts": ""} == {"ts": "", "level": "warn", "logger": "some.library", "msg": message}


def test_python_warnings_are_logged():
    def call() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old thing", DeprecationWarning, stacklevel=1)

    [line] = logged(call)
    assert (line["level"], line["logger"]) == ("warn", "py.warnings")
    assert "old thing" in line["msg"]


class Unwilling:
    """Value whose repr and str raise errors."""

    def __repr__(self) -> str:
        raise LookupError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("u" * 1024, "u" * 1024),
        ("u" * 3000, "u" * 1024 + "… (1976 more characters)"),
        (["u" * 3000, 1], '["' + "u" * 1022 + "… (1982 more characters)"),
        ({"a": [1] * 10}, {"a": [1] * 10}),
        (b"u" * 3000, "\"b'" + "u" * 1021 + "… (1981 more characters)"),
        (10**50, str(10**50)),
        (10**5000, "<int that cannot be shown>"),
        (Unwilling(), "<Unwilling that cannot be shown>"),
    ],
    ids=["fits", "long", "list", "short object", "bytes", "number", "very long number", "unwilling"],
)
def test_overlong_log_value_is_truncated(value: object, shown: object):
    [line] = logged(lambda: get_logger("x").info("hello", user=value))
    assert line["user"] == shown


def test_overlong_log_message_or_error_or_stack_is_truncated():
    def call() -> None:
        get_logger("x").error("m" * 3000, exc_info=ValueError("e" * 1_000_000), stack="x" * 40_000)
        get_logger("x").error("ended", stack="step\n" * 1000)

    line, short = logged(call)
    assert line["msg"] == "m" * 1024 + "… (1976 more characters)"
    assert len(line["error"]) < 1100
    assert len(line["stacktrace"]) < 5000
    assert line["stack"].endswith("… (7232 more characters)")
    assert short["stack"] == "step\n" * 1000


def test_long_traceback_keeps_its_beginning_and_its_end():
    def fail(steps: int) -> None:
        if not steps:
            raise ValueError("at last")
        (fail if steps % 2 else other)(steps - 1)

    def other(steps: int) -> None:
        fail(steps)

    def call() -> None:
        try:
            fail(300)
        except ValueError as error:
            get_logger("x").error("failed", exc_info=error)

    [line] = logged(call)
    assert line["stacktrace"].startswith("Traceback")
    assert line["stacktrace"].endswith("ValueError: at last\n")
    assert len(line["stacktrace"]) < 33_000


@pytest.mark.parametrize(
    ("log_format", "terminal", "no_color", "coloured"),
    [
        ("console", False, False, False),
        ("auto", True, False, True),
        ("auto", True, True, False),
        ("auto", False, False, None),
    ],
)
def test_console_line_has_colours_only_on_a_terminal_with_colours_enabled(
    log_format: LogFormat,
    terminal: bool,
    no_color: bool,
    coloured: bool | None,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("NO_COLOR", "1")
    if not no_color:
        monkeypatch.delenv("NO_COLOR")
    log = get_logger("cache", kind="Pod", reason="two words")
    line = written(lambda: log.warning("hello there"), log_format, terminal=terminal)
    assert ("\x1b" in line) is bool(coloured)
    assert "hello there" in line
    assert line.startswith('{"ts":') is (coloured is None)  # JSON where there is no terminal
    if coloured is False:
        assert "warn" in line
        assert "[cache]" in line
        assert line.rstrip().endswith("kind=Pod reason='two words'")


def test_console_format_indents_a_stack_so_that_it_cannot_imitate_a_log_line():
    def call() -> None:
        get_logger("x").error("ended", stack="task a:\n  sleep()\n2026-11-21 [error] \x1b[2J")

    first, *rest = written(call, "console").splitlines()
    assert "ended" in first
    assert rest == ["  task a:", "    sleep()", r"  2026-11-21 [error] \x1b[2J"]


def test_console_line_keeps_its_own_columns_when_fields_of_the_call_have_the_same_names():
    def call() -> None:
        get_logger("x").info("paid", ts="then", level="gold\n", msg="thanks", logger="y", exception=3)
        structlog.get_logger().info("plain")

    named, plain = written(call, "console").splitlines()
    assert re.match(r"20\d\d-\S+Z \[info     \] paid  ", named)
    assert named.endswith(r"[x] ts_=then level_='gold\n' msg_=thanks logger_=y exception_=3")
    assert plain.endswith("plain"), "a line without a logger has no brackets"


FORGED = "x\n2026-11-21T08:31:02.123Z [error    ] the lease is lost\r\x1b[2J\u2028\x85"


@pytest.mark.parametrize("terminal", [False, True])
def test_console_format_escapes_forged_lines_in_messages_fields_and_errors(terminal: bool):
    def call() -> None:
        log = get_logger("x")
        log.info(FORGED, user=FORGED, names=[FORGED], short="\x1b[2J", exception=FORGED)
        try:
            raise ValueError(FORGED)
        except ValueError as error:
            log.error("failed", exc_info=error)  # noqa: TRY400 - log records of libraries look so

    text = written(call, "console", terminal=terminal).replace("\r\n", "\n")  # as a terminal ends lines

    assert not {"\r", "\x1b[2J", "\u2028", "\x85"} & {*text, *(["\x1b[2J"] if "\x1b[2J" in text else [])}
    first, second, *rest = text.rstrip("\n").split("\n")
    assert first.count(r"x\n2026-11-21") == 4
    assert "failed" in second
    assert rest[-2].endswith("ValueError: x")
    assert all(line.startswith("  ") for line in rest)


PIPE_HOLDS = 64 * 1024
"""Size of a pipe's buffer in Linux; further writes block."""

MOST = 100 * (1024 + 64)
"""Maximum bytes of waiting lines: 100 lines of 1 kB with their overhead."""

GENEROUS = 30.0


class Ends:
    """Pipe with a line writer at its writing end."""

    def __init__(self, *, max_waiting: int) -> None:
        self.reading, self.writing = os.pipe()
        self.writer = LineWriter(
            self.writing,
            dropped_line=lambda lines, size: b"dropped %d of %d" % (lines, size),
            max_waiting=max_waiting,
        )
        self._received = bytearray()

    def fill(self) -> None:
        """Fill the pipe, so that the writer's thread blocks while it writes the next line."""
        self.writer.write(b"x" * (PIPE_HOLDS - 1))
        assert self.writer.flush(GENEROUS)

    def read_until(self, beginning: bytes) -> list[bytes]:
        """Read until a line starts with `beginning`; return all lines that were read."""
        while not re.search(rb"^%b.*\n" % beginning, self._received, re.MULTILINE):
            self._received += os.read(self.reading, 1 << 20)
        return bytes(self._received).splitlines()

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
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Yield a pipe with a line writer; the parameter limits the bytes of waiting lines."""
    ends = Ends(max_waiting=getattr(request, "param", 1 << 20))
    yield ends
    ends.close()


@pytest.mark.parametrize("ends", [MOST], indirect=True)
def test_stalled_log_reader_blocks_no_write_and_gets_the_number_of_lost_lines(ends: Ends):
    ends.fill()
    sent = [b"%04d" % number + b"." * 1020 for number in range(300)]
    for line in sent:
        ends.writer.write(line)
    assert not ends.writer.flush(0)
    ends.read_until(b"dropped ")
    assert ends.writer.flush(GENEROUS)
    _, *lines = ends.read_rest()
    [told] = [line for line in lines if line.startswith(b"dropped ")]
    lines.remove(told)
    assert lines == sent[: len(lines)]
    missed = len(sent) - len(lines)
    assert 100 <= len(lines) < 200
    assert told == b"dropped %d of %d" % (missed, missed * 1024)


@pytest.mark.parametrize("ends", [MOST], indirect=True)
def test_line_writer_limits_the_bytes_of_waiting_lines(ends: Ends):
    assert MAX_WAITING == 8 * 1024 * 1024  # as docs/security.md says
    ends.fill()
    for _ in range(10):
        ends.writer.write(b"y" * (MOST // 2))
    ends.read_until(b"dropped 9 of %d" % (9 * MOST // 2))
    ends.writer.write(b"and on")
    assert ends.read_until(b"and on")


@pytest.mark.parametrize("blocking", [True, False])
def test_log_line_larger_than_the_pipe_buffer_is_written_completely(ends: Ends, blocking: bool):
    os.set_blocking(ends.writing, blocking)
    large = b"y" * (3 * PIPE_HOLDS)
    ends.writer.write(large)
    ends.writer.write(b"end")
    assert ends.read_until(b"end") == [large, b"end"]


def test_log_writer_raises_no_error_when_its_pipe_has_no_reader():
    ends = Ends(max_waiting=MOST)
    os.close(ends.reading)
    ends.writer.write(b"nobody")
    assert ends.writer.flush(GENEROUS)
    ends.writer.close(GENEROUS)
    os.close(ends.writing)


def test_log_close_writes_waiting_lines_and_makes_later_writes_synchronous(ends: Ends):
    ends.writer.write(b"before")
    ends.writer.close(GENEROUS)
    ends.writer.write(b"after")
    assert ends.writer.flush(0)
    assert ends.read_until(b"after") == [b"before", b"after"]


def test_log_flush_after_a_close_that_timed_out_returns_whether_all_lines_are_written(ends: Ends):
    ends.fill()
    ends.writer.write(b"last")
    ends.writer.close(0)
    assert not ends.writer.flush(0)
    assert ends.read_until(b"last")
    assert ends.writer.flush(GENEROUS)


def test_log_close_writes_lines_that_other_threads_queue_meanwhile(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
):
    thread = ends.writer._thread
    join = thread.join

    def join_after_a_line(timeout: float | None = None) -> None:
        ends.writer.write(b"meanwhile")
        ends.read_rest()
        join(timeout)

    ends.fill()
    ends.writer.write(b"last")
    monkeypatch.setattr(thread, "join", join_after_a_line)
    ends.writer.close(GENEROUS)
    monkeypatch.undo()
    assert ends.writer.flush(0)
    assert ends.read_rest()[-2:] == [b"last", b"meanwhile"]
