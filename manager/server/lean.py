"""The module aiohttp.web for the manager's servers; importing it from here saves 2.8 MB of memory."""

from __future__ import annotations

import ssl
from functools import partialmethod
from typing import Any

from manager.util.memory import imports_blocked

__all__ = ["web"]


class _LateContext(ssl.SSLContext):
    """A context that loads the machine's certificate authorities when it is first used."""

    def __getattribute__(self, name: str) -> Any:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment] # from now on, it is a usual one
        self.set_default_verify_paths()
        return getattr(self, name)


_made: list[ssl.SSLContext] = []
"""The contexts of aiohttp's client for https, which it makes at import: 1.4 MB of authorities, 20 ms."""

ssl.SSLContext.set_default_verify_paths = partialmethod(_made.append)  # type: ignore[assignment]
try:
    with imports_blocked("frozenlist._frozenlist"):  # frozenlist's Python code needs no libstdc++
        from aiohttp import web
finally:
    del ssl.SSLContext.set_default_verify_paths  # the base class has it
    for _context in _made:
        _context.__class__ = _LateContext
