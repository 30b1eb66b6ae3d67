"""Fair shares of the console's limited resources: many accounts of one user count as one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from manager.rate_limit import Lines
from manager.server.reviews import User

_MINUTE = 60.0


def sharer(user: User | None) -> str:
    """Whose limits apply to a user; "" where nobody has to say who they are."""
    return "" if user is None else user.sharer


class LinesByUser:
    """Limits log lines about users: so many a minute for each, and for all beyond `most` together."""

    def __init__(self, *, per_minute: int, most: int) -> None:
        """At most `most` users are told apart; one who is silent for a minute makes room for another."""
        self._per_minute = per_minute
        self._most = most
        self._known = OrderedDict[str, tuple[Lines, float]]()
        self._others = Lines(per_minute=per_minute)

    def of(self, who: str) -> Lines:
        """The lines of a user who acts now."""
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
