"""The garbage collector, set up for a process that makes much at its start, and keeps it."""

from __future__ import annotations

import gc

__all__ = ["settle", "tune_garbage_collector"]

_THRESHOLDS = (50_000, 20, 100)
"""The default of 700 new objects collects so often that it doubles the cost of decoding a list."""


def tune_garbage_collector() -> None:
    """Collect rarely. For the whole process; to be called once, at its start."""
    gc.set_threshold(*_THRESHOLDS)


def settle() -> None:
    """Take what exists now out of every later collection.

    To be called when the start is over: modules, classes and the first content of the caches
    stay for good, and looking at them again and again is what makes full collections slow.
    """
    gc.collect()
    gc.freeze()
