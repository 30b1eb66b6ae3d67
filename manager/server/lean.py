"""The module aiohttp.web for the manager's servers; importing it from here saves 2.8 MB of memory."""

from __future__ import annotations

import ssl
import sys
from functools import partialmethod
from typing import Any

__all__ = ["web"]


class _LateContext(ssl.SSLContext):
    """A context that loads the machine's certificate authorities when it is first used."""

    def __getattribute__(self, name: str) -> Any:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment] # from now on, it is a usual one
        self.set_default_verify_paths()
        return getattr(self, name)


_made: list[ssl.SSLContext] = []
"""The contexts of aiohttp's client for https, which it makes at import: 1.4 MB of authorities, 20 ms."""

_unwanted = [] if "frozenlist" in sys.modules else ["frozenlist._frozenlist"]
sys.modules.update(dict.fromkeys(_unwanted))  # type: ignore[arg-type] # its Python code does without libstdc++
ssl.SSLContext.set_default_verify_paths = partialmethod(_made.append)  # type: ignore[assignment]
try:
    from aiohttp import web
finally:
    del ssl.SSLContext.set_default_verify_paths  # the base class has it
    for _name in _unwanted:
        del sys.modules[_name]
    for _context in _made:
        _context.__class__ = _LateContext
