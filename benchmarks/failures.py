"""Failures of a measured program that do not end the whole run."""

from __future__ import annotations

import http.client

from tests.support.api_access import ApiFailure
from tests.support.daemon import DaemonDied

__all__ = ["FAILURES", "reason_of"]

# OSError includes timeouts and missing processes.
FAILURES = (
    OSError,
    DaemonDied,
    ApiFailure,
    http.client.HTTPException,
    LookupError,
    ExceptionGroup,
    AssertionError,
)
LONGEST = 160
LOG = "; the end of its log"


def reason_of(error: BaseException) -> str:
    """Return one line for a table's footnote, with a dead program's last line of output."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said, has_log, log = str(error).partition(LOG)
    reason = (said.strip().splitlines() or [type(error).__name__])[0]
    lines = [line for line in log.splitlines()[1:] if line.strip()]
    if has_log and lines and isinstance(error, DaemonDied):
        reason += f": {lines[-1].strip()}"
    return reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"
