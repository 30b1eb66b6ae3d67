"""The addresses of a host, though name servers may be slow or silent."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from aiohappyeyeballs import AddrInfoType

PATIENCE = 1.0
"""Seconds for a look-up before the addresses that the one before has found are used."""

_Found: TypeAlias = Sequence[AddrInfoType]
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class Names:
    """DNS resolver for the connections of one wire.

    A look-up cannot be cancelled, and takes five seconds or more when a packet is lost. So concurrent callers
    share one look-up per name, in a thread of its own. The event loop has few threads, and abandoned look-ups
    in them would delay other wires, such as the lease's.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Found] = {}
        self._under_way: dict[tuple[str, int], asyncio.Future[_Found | Exception]] = {}

    async def addresses(self, host: str, port: int) -> _Found:
        """Where to connect to; those of the last look-up, if the new one fails or is slow.

        Raises:
            OSError: there are none.
            UnicodeError: it is no name of a host.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=_NUMERIC)
        except (OSError, UnicodeError):
            pass  # a name
        known = self._known.get((host, port))
        search = self._search(host, port)
        await asyncio.wait([search], timeout=PATIENCE if known else None)
        if search.done() and not isinstance(found := search.result(), Exception):
            return found
        if known:
            return known
        # Give each caller an exception of its own: callers share the look-up, not the traceback.
        error = search.result()
        assert isinstance(error, Exception)
        raise type(error)(*error.args)

    def _search(self, host: str, port: int) -> asyncio.Future[_Found | Exception]:
        place = host, port
        if place not in self._under_way:
            answer: Future[_Found | Exception] = Future()
            # A daemon: the process ends although a name server has not answered yet.
            threading.Thread(target=_look_up, args=(*place, answer), name="name", daemon=True).start()
            self._under_way[place] = asyncio.wrap_future(answer)
            self._under_way[place].add_done_callback(partial(self._ended, place))
        return self._under_way[place]

    def _ended(self, place: tuple[str, int], search: asyncio.Future[_Found | Exception]) -> None:
        del self._under_way[place]
        if not isinstance(found := search.result(), Exception):
            self._known[place] = found


def _look_up(host: str, port: int, answer: Future[_Found | Exception]) -> None:
    try:
        answer.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:  # noqa: BLE001 - it is the answer of those who wait
        answer.set_result(error)
