"""The event loop of a cluster that runs in a thread or process of its own."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where it is installed, else the standard one."""
    try:
        import uvloop  # noqa: PLC0415 - 3 ms, 1.5 MB; not there on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
