"""URLs in objects, as Go reads them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from devcluster.quantity import quoted

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_PORT = re.compile(r":[^:\]]*\Z")


def split_url(text: str) -> SplitResult:
    """Split a URL; raise ValueError, with the message of Go's `url.Parse`, if it is invalid."""
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _invalid(text, "invalid host" if "]" in text else "missing ']' in host") from None
    port = _PORT.search(parts.netloc)
    if _CONTROL.search(text):
        raise _invalid(text, "net/url: invalid control character in URL")
    if port is not None and re.fullmatch(":[0-9]*", port[0]) is None:
        raise _invalid(text, f"invalid port {quoted(port[0])} after host")
    if " " in parts.netloc:
        raise _invalid(text, 'invalid character " " in host name')
    if (escape := _ESCAPE.search(parts.netloc + parts.path)) is not None:
        raise _invalid(text, f"invalid URL escape {quoted(escape[0])}")
    return parts


def _invalid(text: str, problem: str) -> ValueError:
    return ValueError(f"parse {quoted(text)}: {problem}")
