"""Values in Go's formats, as the real server's messages show them."""

from __future__ import annotations

import re
from typing import Any, Final

from devcluster.quantity import quoted, show_float

_HTML: Final = re.compile("[<>&\u2028\u2029]")


def format_v(value: Any) -> str:
    """Format a JSON value as Go's `%v` does: `map[a:1 b:[x y]]`, `<nil>`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{format_v(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(format_v(item) for item in value)}]"
    if isinstance(value, float):
        return show_float(value)
    return str(value)


def format_sharp(value: Any) -> str:
    """Format a JSON value as Go's `%#v` does."""
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return format_v(value)
    if isinstance(value, dict):
        items = ", ".join(f"{quoted(key)}:{format_sharp(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(format_sharp(item) for item in value)}}}"
    return format_v(value)


def type_name(value: Any) -> str:
    """Return the Go type of a decoded JSON value as `%T` shows it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    if isinstance(value, float):
        return "float64"
    return "int64" if isinstance(value, int) else "string"


def go_json(text: str) -> str:
    """Return the JSON text with the additional escapes of Go's encoder."""
    return _HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
