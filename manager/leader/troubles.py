"""What is wrong with an election, in words for logs and readiness."""

from __future__ import annotations

from manager.logs import get_logger

__all__ = ["Troubles"]

_log = get_logger("leader")


class Troubles:
    """The present trouble with the lease; each new one is logged once, however often it repeats."""

    def __init__(self) -> None:
        self._problem: str | None = None
        self._kind: tuple[str, type[Exception]] | None = None
        self._failures = 0

    @property
    def problem(self) -> str | None:
        """The trouble in one sentence; None once a request for the lease has succeeded."""
        return self._problem

    @property
    def failures(self) -> int:
        """How many requests failed."""
        return self._failures

    def report(self, failed: str, error: Exception) -> None:
        """Note that something, such as `cannot read lease a/b`, failed with `error`."""
        self._failures += 1
        self._problem = f"{failed}: {str(error) or type(error).__name__}"
        if self._kind != (failed, type(error)):
            self._kind = (failed, type(error))
            _log.warning(self._problem)

    def clear(self) -> None:
        """Note that a request succeeded."""
        if self._problem is not None:
            _log.info("the lease is in reach again", was=self._problem)
        self._problem = self._kind = None
