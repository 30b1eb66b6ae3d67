"""Errors of expressions, at compile time and at run time."""

from __future__ import annotations

__all__ = ["CelError", "CompileError", "InstantiationError", "no_such_overload"]


class CelError(Exception):
    """An expression that cannot be evaluated; the text is the real one (`no such key: a`)."""


class CompileError(Exception):
    """The expression is wrong for all values; `str` is the text that the server's error quotes."""

    def __init__(self, source: str, issues: list[tuple[int, str]]) -> None:
        """Set up the error; `issues` are offsets into `source`, each with a message."""
        super().__init__("\n".join(_shown(source, at, text) for at, text in sorted(issues)))


class InstantiationError(CompileError):
    """An expression with a constant that cannot be converted: `int('x')`."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


def no_such_overload() -> CelError:
    """Build the error for values that an operator or function does not support."""
    return CelError("no such overload")


def _shown(source: str, at: int, text: str) -> str:
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    line = source[start:] if end < 0 else source[start:end]
    column = at - start
    number = source.count("\n", 0, at) + 1
    return f"ERROR: <input>:{number}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"
