"""Allocation of addresses and ports to services."""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devcluster.storage.records import Change, Stored
    from devcluster.storage.store import Store

__all__ = ["NODE_PORTS", "SERVICE_NETWORK", "Allocation"]

SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)

STATIC_ADDRESSES = 256
STATIC_PORTS = 86
"""The first ports of the range, which are reserved for requests of a specific port."""


class Allocation:
    """Kept in step with the store, by watching its writes: nothing that fails to be stored is ever taken."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store = store
        self._rng = rng
        self._addresses: Counter[str] = Counter()
        self._ports: Counter[tuple[str, int]] = Counter()
        for stored in store.select("", "services"):
            self._count(stored, 1)
        store.subscribe(self._changed)

    def has_address(self, address: str) -> bool:
        """Return whether a service has the address."""
        return bool(self._addresses[address])

    def has_port(self, protocol: str, port: int) -> bool:
        """Return whether a service has that node port; each protocol has its own ports."""
        return bool(self._ports[protocol, port])

    def free_address(self) -> str | None:
        """Return a free address, or None when all are taken."""
        size = SERVICE_NETWORK.num_addresses - 2 - STATIC_ADDRESSES
        start = self._rng.randrange(size)
        for offset in range(size):
            address = str(SERVICE_NETWORK[1 + STATIC_ADDRESSES + (start + offset) % size])
            if not self._addresses[address]:
                return address
        return None

    def free_port(self, protocol: str, taken: set[tuple[str, int]]) -> int | None:
        """Return a free port that is not in `taken`, or None when all are taken."""
        size = len(NODE_PORTS) - STATIC_PORTS
        start = self._rng.randrange(size)
        for offset in range(size):
            port = NODE_PORTS[STATIC_PORTS + (start + offset) % size]
            if not self._ports[protocol, port] and (protocol, port) not in taken:
                return port
        return None

    def _changed(self, change: Change) -> None:
        if change.key.plural == "services" and not change.key.group:
            if change.old is not None:
                self._count(change.old, -1)
            if change.new is not None:
                self._count(change.new, 1)

    def _count(self, stored: Stored, number: int) -> None:
        spec: dict[str, Any] = stored.decode().get("spec") or {}
        for address in spec.get("clusterIPs") or ():
            self._addresses[address] += number
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                self._ports[port.get("protocol", "TCP"), port["nodePort"]] += number
        if spec.get("healthCheckNodePort"):
            self._ports["TCP", spec["healthCheckNodePort"]] += number
