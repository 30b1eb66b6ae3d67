"""Blocks of loopback ports in slots of eight; an open socket on the last port of a slot reserves it."""

from __future__ import annotations

import random
import socket
from typing import Self

# Below the ports that the kernel uses for outgoing connections.
FIRST, LAST = 20_000, 32_000
# Slots do not overlap, so the process with the socket on the last port of a slot owns the whole slot.
SLOT = 8
TRIES = 500


class PortBlock:
    """`size` consecutive free ports on 127.0.0.1, as `block[0]` to `block[size - 1]`, reserved until `close`.

    Test processes that run at the same time get different blocks.
    """

    def __init__(self, size: int) -> None:
        assert 0 < size < SLOT
        self._size = size
        for _ in range(TRIES):
            base = random.SystemRandom().randrange(FIRST, LAST - SLOT, SLOT)
            if self._reserve(base):
                self._base = base
                return
        raise OSError(f"no {size} free ports in a row between {FIRST} and {LAST}")

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._base + index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reservation.close()

    def _reserve(self, base: int) -> bool:
        held: list[socket.socket] = []
        try:
            for port in (*range(base, base + self._size), base + SLOT - 1):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            for taken in held:
                taken.close()
            return False
        self._reservation = held.pop()
        for free in held:
            free.close()
        return True
