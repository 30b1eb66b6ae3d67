"""What ended the process, told in one line."""

from __future__ import annotations

from manager.cli.errors import ServerUnusable
from manager.kube.errors import KubeError
from manager.leader import LeadershipLost
from manager.manager import CannotStart

__all__ = ["cause_of", "in_one_line", "is_expected"]


def cause_of(error: BaseException) -> BaseException:
    """The first single error in a group of them, or `error` itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_expected(error: BaseException) -> bool:
    """Whether the message alone tells a person what to do; else the traceback is needed as well."""
    return isinstance(error, ServerUnusable | CannotStart | KubeError | LeadershipLost | OSError)


def in_one_line(error: BaseException) -> str:
    """What to tell a person of an error that is expected."""
    text = " ".join(str(error).split())
    return f"no longer the leader: {text}" if isinstance(error, LeadershipLost) else text
