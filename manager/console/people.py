"""Who shares what the console has little of: one who comes under many names has no more of it than others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from manager.access.reviews import User
from manager.rate_limit import Lines

_ACCOUNT = "system:serviceaccount:"
_MINUTE = 60.0


def sharer(user: User | None) -> str:
    """The user's name; of a service account its namespace: somebody may make many accounts there."""
    if user is None:
        return ""
    if user.name.startswith(_ACCOUNT):
        return user.name.rpartition(":")[0]
    return user.name


class LinesByUser:
    """Lines of the log about what users do: so many a minute of each, and of all who are too many."""

    def __init__(self, *, per_minute: int, most: int) -> None:
        """`most` users are told apart, those who act while others are silent for a minute."""
        self._per_minute = per_minute
        self._most = most
        self._known = OrderedDict[str, tuple[Lines, float]]()
        self._others = Lines(per_minute=per_minute)

    def of(self, who: str) -> Lines:
        """Those of one of them, who does something now."""
        now = asyncio.get_running_loop().time()
        lines, _ = self._known.pop(who, (None, now))
        if lines is None:
            if len(self._known) >= self._most:
                longest, (_, acted) = next(iter(self._known.items()))
                if now < acted + _MINUTE:  # forgotten now, they could have as many lines again
                    return self._others
                del self._known[longest]
            lines = Lines(per_minute=self._per_minute)
        self._known[who] = lines, now
        return lines
