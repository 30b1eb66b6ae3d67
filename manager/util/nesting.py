"""The limit for nested JSON and YAML: the same for each decoder, Python version and stack depth.

Decoders have their own limits: pydantic's is 200 levels, orjson writes 254, and msgspec's depends on the
interpreter's stack.
"""

from __future__ import annotations

from itertools import accumulate

import msgspec

MOST_LEVELS = 200
"""The maximum depth of nested objects and lists. An API server accepts 10,000."""

TOO_DEEP = "it is nested too deeply"

_STEPS = bytes.maketrans(b"{[}]", bytes((1, 1, 0xFF, 0xFF)))
_OTHERS = bytes(set(range(256)) - set(b"{[}]"))


def is_too_deep(raw: bytes | bytearray | memoryview | msgspec.Raw, levels: int = MOST_LEVELS) -> bool:
    """Return whether JSON has too many nested levels; of invalid JSON, at least its valid start counts."""
    content = raw if isinstance(raw, bytes | bytearray) else bytes(raw)
    # Replacing at most so many brackets costs a third of counting all of them.
    if content.replace(b"[", b"{").replace(b"{", b" ", levels).find(b"{") < 0:
        return False
    if b"\\" in content:
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(content.split(b'"')[::2]).translate(_STEPS, _OTHERS)
    return any(map(levels.__lt__, accumulate(memoryview(brackets).cast("b"))))
