"""Settings of the memory allocator and the garbage collector, for a process that keeps most objects."""

from __future__ import annotations

import ctypes
import gc

_THRESHOLDS = (50_000, 20, 100)
"""The default of 700 new objects collects so often that it doubles the cost of decoding a list."""

_M_MMAP_THRESHOLD = -3
"""What glibc calls it, in malloc.h."""

_LARGE = 128 * 1024
"""Bytes; glibc's own, to begin with."""


def give_back_large_blocks() -> None:
    """Take memory for large blocks from the system, and give it back when it is free, for good.

    Otherwise glibc keeps blocks of up to 16 MB in its heap once one was freed: some tens of megabytes in a
    process with webhooks. Does nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


def tune_garbage_collector() -> None:
    """Collect rarely. For the whole process; to be called once, at its start."""
    gc.set_threshold(*_THRESHOLDS)


def settle() -> None:
    """Take what exists now, which stays for good, out of every later collection, which it makes slow."""
    gc.collect()
    gc.freeze()
