"""What may go wrong with a program under measurement without ending the whole run."""

from __future__ import annotations

import http.client

from tests.support.api_access import ApiFailure
from tests.support.daemon import DaemonDied

__all__ = ["FAILURES", "reason_of"]

# OSError is also that of a timeout and of a process that is not there any more.
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
    """One line for a table's footnote; of a program that ended, with the last that it wrote."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said, has_log, log = str(error).partition(LOG)
    reason = (said.strip().splitlines() or [type(error).__name__])[0]
    lines = [line for line in log.splitlines()[1:] if line.strip()]
    if has_log and lines and isinstance(error, DaemonDied):
        reason += f": {lines[-1].strip()}"
    return reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"
