"""Less memory: the allocator, the garbage collector, and modules that libraries import without need."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 20, 100)
"""The default (700, or 2,000 since Python 3.13) makes decoding a list take up to twice as long."""

_M_MMAP_THRESHOLD = -3
"""glibc's constant from malloc.h."""

_LARGE = 128 * 1024
"""Bytes; glibc's own initial value."""


def give_back_large_blocks() -> None:
    """Make glibc always request large blocks from the system, and return each one when it is freed.

    Otherwise glibc keeps blocks of up to 32 MB in its heap after one was freed: some tens of megabytes in a
    process with webhooks. Does nothing with another C library.
    """
    import ctypes  # noqa: PLC0415 - 2 ms, 0.5 MB, and without webhooks nothing needs it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


def tune_garbage_collector() -> None:
    """Make the garbage collector run rarely in the whole process; call it once, at the start."""
    gc.set_threshold(*_THRESHOLDS)


def settle() -> None:
    """Exclude all existing objects from garbage collection, so that later collections are faster."""
    gc.collect()
    gc.freeze()


@contextmanager
def imports_blocked(*names: str) -> Iterator[None]:
    """Make imports of these modules fail inside the block, unless they are in `sys.modules` already."""
    blocked = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type] # None makes an import fail
    try:
        yield
    finally:
        for name in blocked:
            del sys.modules[name]
