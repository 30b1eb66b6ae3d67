"""Event loop for a cluster that has its own thread or process."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed, else the standard one."""
    try:
        import uvloop  # noqa: PLC0415 - 3 ms, 1.5 MB; not there on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
