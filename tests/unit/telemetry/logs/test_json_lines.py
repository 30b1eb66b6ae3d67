from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manager.telemetry.logs import LogLevel, configured, get_logger
from manager.telemetry.logs.setup import BridgeHandler


class Output:
    """A file that lines are logged to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def logged(self, call: Callable[[], object], level: LogLevel = "info") -> list[dict[str, Any]]:
        with self._path.open("wb") as file, configured(level=level, log_format="json", fd=file.fileno()):
            call()
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "log")


def test_a_line_has_its_time_level_logger_and_message_first_and_then_its_fields(output: Output):
    [line] = output.logged(lambda: get_logger("cache", kind="Pod").info("synced", objects=3))
    assert list(line) == ["ts", "level", "logger", "msg", "kind", "objects"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {"level": "info", "logger": "cache", "msg": "synced", "kind": "Pod", "objects": 3}


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warn", "error"]),
        ("info", ["info", "warn", "error"]),
        ("warn", ["warn", "error"]),
        ("error", ["error"]),
    ],
)
def test_log_level_leaves_out_lines_below_it(output: Output, level: LogLevel, written: list[str]):
    def call() -> None:
        log = get_logger("x")
        log.debug("d")
        log.info("i")
        log.warning("w")
        log.error("e")

    assert [line["level"] for line in output.logged(call, level)] == written


def test_a_logger_made_before_the_setup_follows_it(output: Output):
    early = get_logger("early")
    assert output.logged(lambda: early.info("hello"), "warn") == []
    assert [line["logger"] for line in output.logged(lambda: early.info("hello"))] == ["early"]


def test_an_exception_comes_with_its_message_and_stack(output: Output):
    def call() -> None:
        try:
            raise ValueError("wrong")
        except ValueError:
            get_logger("x").exception("failed")

    [line] = output.logged(call)
    assert line["level"] == "error"
    assert line["error"] == "wrong"
    assert line["stacktrace"].startswith("Traceback")
    assert "ValueError: wrong" in line["stacktrace"]


def test_an_error_given_as_a_field_is_kept_beside_the_stack(output: Output):
    problem = KeyError("k")
    [line] = output.logged(lambda: get_logger("x").error("failed", error="in short", exc_info=problem))
    assert line["error"] == "in short"
    assert "KeyError: 'k'" in line["stacktrace"]


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 2**70, "\ud800", {"deep": {"er": object()}}, b"\xff", ValueError("x")]
)
def test_json_format_writes_a_line_when_a_value_does_not_fit_json(output: Output, value: object):
    [line] = output.logged(lambda: get_logger("x").info("odd", value=value))
    assert line["msg"] == "odd"
    assert "value" in line


def test_line_breaks_in_a_message_stay_within_one_line(output: Output):
    [line] = output.logged(lambda: get_logger("x").info("a\nb"))
    assert line["msg"] == "a\nb"


def test_json_format_escapes_unprintable_characters(tmp_path: Path):
    odd = "ö 🐕 \x1b[2J \x7f \x85 \x9b2J \u2028 \u202e \U000e0001"
    with (tmp_path / "log").open("wb") as file, configured(level="info", log_format="json", fd=file.fileno()):
        get_logger("webhook", **{odd: [odd]}).info(odd, user=odd, exc_info=ValueError(odd))
    text = (tmp_path / "log").read_text()
    assert text.removesuffix("\n").isprintable()
    assert "ö 🐕" in text
    line = json.loads(text)
    assert (line["msg"], line["user"], line["error"], line[odd]) == (odd, odd, odd, [odd])


def test_stdlib_record_becomes_a_line_of_its_own_logger(output: Output):
    [line] = output.logged(lambda: logging.getLogger("some.library").warning("got %d", 3))
    assert line | {"ts": ""} == {"ts": "", "level": "warn", "logger": "some.library", "msg": "got 3"}


def test_a_librarys_exception_comes_with_its_stack(output: Output):
    def call() -> None:
        try:
            raise ValueError("wrong")
        except ValueError:
            logging.getLogger("lib").exception("failed")

    [line] = output.logged(call)
    assert (line["level"], line["error"]) == ("error", "wrong")


def test_a_librarys_message_that_does_not_fit_its_arguments_is_shown_all_the_same(output: Output):
    record = logging.LogRecord("lib", logging.WARNING, __file__, 1, "%d", ("x",), None)
    [line] = output.logged(lambda: BridgeHandler().handle(record))
    assert (line["logger"], line["msg"]) == ("lib", "'%d' % ('x',)")


def test_levels_between_the_usual_ones_count_as_the_one_below(output: Output):
    [line] = output.logged(lambda: logging.getLogger("lib").log(25, "notice"))
    assert line["level"] == "info"


def test_stdlib_record_below_the_level_is_left_out(output: Output):
    assert output.logged(lambda: logging.getLogger("lib").info("chatter"), "warn") == []


def test_warnings_are_logged(output: Output):
    def call() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(False)
            logging.captureWarnings(True)
            warnings.warn("old thing", DeprecationWarning, stacklevel=1)

    [line] = output.logged(call)
    assert (line["level"], line["logger"]) == ("warn", "py.warnings")
    assert "old thing" in line["msg"]


def test_configured_restores_stdlib_logging_at_its_end(output: Output):
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    output.logged(lambda: None, "debug")
    assert root.handlers == handlers
    assert root.level == level


class Unwilling:
    """Cannot be shown."""

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
def test_a_value_is_cut_where_it_becomes_too_long(output: Output, value: object, shown: object):
    [line] = output.logged(lambda: get_logger("x").info("hello", user=value))
    assert line["user"] == shown


def test_a_message_and_an_error_are_cut_as_well(output: Output):
    def call() -> None:
        get_logger("x").error("m" * 3000, exc_info=ValueError("e" * 1_000_000))

    [line] = output.logged(call)
    assert line["msg"] == "m" * 1024 + "… (1976 more characters)"
    assert len(line["error"]) < 1100
    assert len(line["stacktrace"]) < 5000


def test_a_traceback_of_very_many_steps_has_its_beginning_and_its_end(output: Output):
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

    [line] = output.logged(call)
    assert line["stacktrace"].startswith("Traceback")
    assert line["stacktrace"].endswith("ValueError: at last\n")
    assert len(line["stacktrace"]) < 33_000


def test_a_stack_is_kept_where_a_value_would_be_cut(output: Output):
    [line] = output.logged(lambda: get_logger("x").error("ended", stack="step\n" * 1000))
    assert line["stack"] == "step\n" * 1000
    [line] = output.logged(lambda: get_logger("x").error("ended", stack="x" * 40_000))
    assert line["stack"].endswith("… (7232 more characters)")
