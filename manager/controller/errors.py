"""What a reconciler raises to say how its failure is to be treated."""

from __future__ import annotations

__all__ = ["TerminalError"]


class TerminalError(Exception):
    """No retry can mend this; only a change of the object can.

    The request is counted as failed and dropped. Any other exception is retried with back-off.
    """
