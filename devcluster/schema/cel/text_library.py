"""Functions of strings: standard ones, extensions that Kubernetes enables, and its own for patterns."""

from __future__ import annotations

import json
import re
from typing import Any

from devcluster.schema.cel.errors import CelError, no_such_overload
from devcluster.schema.cel.functions import Table, function, method
from devcluster.schema.cel.types import BOOL, DYN, INT, STRING, list_of
from devcluster.schema.cel.values import Duration, Timestamp, to_string
from devcluster.schema.patterns import compile_pattern

__all__ = ["FUNCTIONS"]

_VERB = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")
_TEXTS = list_of(STRING)
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501


def _pattern(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise CelError(str(error)) from error


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [each.group() for each in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return (
            parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
        )
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(parts: list[str], separator: str = "") -> str:
    return separator.join(parts)


def _format(template: str, args: list[Any]) -> str:
    at = 0

    def fill(matched: re.Match[str]) -> str:
        nonlocal at
        precision, verb = matched.groups()
        if verb == "%":
            return "%"
        if at >= len(args):
            raise CelError(f"error during formatting: index {at} out of range")
        value = args[at]
        at += 1
        return _formatted(verb, value, None if precision is None else int(precision))

    return _VERB.sub(fill, template)


def _formatted(verb: str, value: Any, precision: int | None) -> str:
    number = type(value) is not bool and isinstance(value, int)
    if verb == "s":
        return _shown(value)
    if verb == "d" and number:
        return str(int(value))
    if verb in {"f", "e"} and isinstance(value, int | float):
        return f"{float(value):.{6 if precision is None else precision}{verb}}"
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    if verb in {"x", "X"} and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    if verb in {"x", "X", "o"} and number:
        return format(int(value), verb)
    raise CelError(f'error during formatting: unrecognized formatting clause "{verb}"')


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(_quoted(each) for each in value)}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_quoted(key)}:{_quoted(value[key])}" for key in sorted(value, key=str))
        return f"{{{inner}}}"
    return to_string(value)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Timestamp | Duration):
        return f'{"timestamp" if isinstance(value, Timestamp) else "duration"}("{to_string(value)}")'
    return _shown(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _contains(text: Any, part: Any) -> bool:
    if type(text) is str and type(part) is str:
        return part in text
    raise no_such_overload()


FUNCTIONS: Table = {
    "contains": [method((STRING, STRING), BOOL, _contains)],
    "startsWith": [method((STRING, STRING), BOOL, str.startswith)],
    "endsWith": [method((STRING, STRING), BOOL, str.endswith)],
    "matches": [form((STRING, STRING), BOOL, _matches) for form in (function, method)],
    "find": [method((STRING, STRING), STRING, _find)],
    "findAll": [
        method((STRING, STRING), _TEXTS, _find_all),
        method((STRING, STRING, INT), _TEXTS, _find_all),
    ],
    "charAt": [method((STRING, INT), STRING, _char_at)],
    "indexOf": [method((STRING, STRING), INT, _index_of), method((STRING, STRING, INT), INT, _index_of)],
    "lastIndexOf": [
        method((STRING, STRING), INT, _last_index_of),
        method((STRING, STRING, INT), INT, _last_index_of),
    ],
    "lowerAscii": [method((STRING,), STRING, lambda text: text.translate(_LOWER))],
    "upperAscii": [method((STRING,), STRING, lambda text: text.translate(_UPPER))],
    "replace": [
        method((STRING, STRING, STRING), STRING, str.replace),
        method((STRING, STRING, STRING, INT), STRING, str.replace),
    ],
    "split": [method((STRING, STRING), _TEXTS, _split), method((STRING, STRING, INT), _TEXTS, _split)],
    "substring": [method((STRING, INT), STRING, _substring), method((STRING, INT, INT), STRING, _substring)],
    "trim": [method((STRING,), STRING, lambda text: text.strip(_SPACE))],
    "join": [method((_TEXTS,), STRING, _join), method((_TEXTS, STRING), STRING, _join)],
    "format": [method((STRING, list_of(DYN)), STRING, _format)],
    "strings.quote": [function((STRING,), STRING, _quote)],
}
