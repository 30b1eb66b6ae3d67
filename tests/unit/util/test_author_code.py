"""Lines of author code in tracebacks; an author is a developer who writes an operator."""

from __future__ import annotations

import json
import re
from types import TracebackType

from manager.util import backoff
from manager.util.author_code import format_exception, line_in, line_that_asks


class Author:
    """Code of an author; the library calls this code."""

    def fail(self) -> None:
        raise LookupError("no such place")

    def parse(self) -> None:
        json.loads("{")


def raised(function: object, *arguments: object) -> BaseException:
    """Return the error that a function raises when code of the library calls it."""
    library = {"__name__": "manager.operator.reconciler"}
    exec("def call(function, *arguments):\n    return again(function, *arguments)\n", library)
    exec("def again(function, *arguments):\n    return function(*arguments)\n", library)
    try:
        library["call"](function, *arguments)  # type: ignore[operator]
    except BaseException as error:  # noqa: BLE001 - whatever it is
        # In the manager too, code of the library is at the top of the stack.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        return error
    raise AssertionError("nothing was raised")


def test_format_exception_folds_library_frames_before_the_first_frame_of_the_operator():
    text = "".join(format_exception(raised(Author().fail)))
    begin, fold, first, *_, last = text.splitlines()
    assert (begin, fold) == ("Traceback (most recent call last):", "  … 2 frames of the library")
    assert re.fullmatch(r'  File ".*/test_author_code.py", line \d+, in fail', first)
    assert last == "LookupError: no such place"
    assert "…" not in "".join(format_exception(raised(backoff.ExponentialDelay, 1)))


def test_format_exception_keeps_the_frame_that_raised_and_folds_library_frames_before_it():
    text = "".join(format_exception(raised(Author().parse)))
    assert re.findall(r"(?:in |… )(.*)", text)[:4] == [
        "2 frames of the library",
        "parse",
        "2 frames of the library",
        "raw_decode",
    ]


def test_format_exception_folds_frames_of_causes_and_exception_groups():
    error = ExceptionGroup("two", [raised(Author().fail), raised(Author().parse)])
    error.__cause__ = raised(Author().fail)
    text = "".join(format_exception(error))
    assert text.count("… 2 frames of the library") == 4
    assert text.count("LookupError: no such place") == 2


def test_source_line_of_a_traceback_or_caller_is_outside_the_library():
    error = raised(Author().parse)
    assert isinstance(error.__traceback__, TracebackType)
    for found in (line_in(error.__traceback__), line_that_asks()):
        assert re.fullmatch(r"tests/unit/util/test_author_code.py:\d+", found)
    assert line_in(None) == ""
