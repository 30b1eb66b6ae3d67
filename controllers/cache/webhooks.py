"""Memcached: what is said when something is written that is easily a slip of the finger."""

from __future__ import annotations

from collections.abc import Iterable

from apis.cache.v1.memcached import Memcached
from manager.webhook import Admission, AdmissionRequest

__all__ = ["MANY", "WEBHOOKS", "warn_of_growth", "warn_of_many"]

MANY = 1_000
"""More servers than this are worth a warning. They are started all the same."""

# It warns and refuses nothing: nobody has to wait for a manager that is down.
admission = Admission(Memcached, failure_policy="Ignore", timeout_seconds=5)


@admission.validate_create
async def warn_of_many(memcached: Memcached, _: AdmissionRequest) -> Iterable[str]:
    """Warn of more servers than most people want."""
    return _many(memcached)


@admission.validate_update
async def warn_of_growth(old: Memcached, new: Memcached, _: AdmissionRequest) -> Iterable[str]:
    """Warn of them where this change brings more, and not each time that something else is written."""
    return _many(new) if new.spec.size > old.spec.size else ()


def _many(memcached: Memcached) -> Iterable[str]:
    size = memcached.spec.size
    if size <= MANY:
        return ()
    return (
        f"spec.size: {size} is a lot of servers, each of them a pod; be sure that you want more than {MANY}",
    )


WEBHOOKS = (admission,)
