"""Addresses of pods, from the network of their node."""

from __future__ import annotations

import ipaddress
from collections import defaultdict

from devcluster.storage import Key

__all__ = ["PodAddresses"]

RESERVED = 2
"""The network itself, and its gateway."""


class PodAddresses:
    """The addresses of pods, assigned in turn, so that a released address is not reused soon."""

    def __init__(self) -> None:
        self._given: dict[Key, str] = {}
        self._used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)

    def take(self, key: Key, network: str) -> str:
        """Return the pod's address; assigns one at the first call."""
        known = self._given.get(key)
        if known is not None:
            return known
        addresses = ipaddress.ip_network(network)
        room = addresses.num_addresses - RESERVED - 1
        for _ in range(room):
            number = self._next[network] % room
            self._next[network] += 1
            address = str(addresses[RESERVED + number])
            if address not in self._used:
                self.keep(key, address)
                return address
        raise RuntimeError(f"no address left in {network}")

    def keep(self, key: Key, address: str) -> None:
        """Record that the pod has the address."""
        self._given[key] = address
        self._used.add(address)

    def release(self, key: Key) -> None:
        """Free the address of a deleted pod."""
        address = self._given.pop(key, None)
        if address is not None:
            self._used.discard(address)
