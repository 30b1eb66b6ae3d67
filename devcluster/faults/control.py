"""The faults that are set, and those that happen at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from devcluster.faults.fault import Action, Fault, Match
from devcluster.http_call import ApiRequest
from devcluster.storage import Store

__all__ = ["FaultControl"]


class FaultControl:
    """The control of injected faults: `cluster.faults` in Python, `/devcluster/...` over HTTP."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._faults: dict[int, Fault] = {}
        self._last = 0
        self.connections: Callable[[], int] = lambda: 0
        """Cuts every open connection and returns their number; set by the HTTP server."""

    @property
    def faults(self) -> Mapping[int, Fault]:
        """Return the active faults by number."""
        return MappingProxyType(self._faults)

    def add(self, do: Action | str, match: Match | None = None, **options: Any) -> int:
        """Set a fault and return its number; `options` are the further fields of `Fault`.

        The first of several that apply to a request happens to it.

        Raises:
            ValueError: the fault makes no sense; the text names the field.
        """
        return self.put(Fault(do=Action(do), match=match or Match(), **options))

    def put(self, fault: Fault) -> int:
        """Add a fault, and return its number."""
        self._last += 1
        self._faults[self._last] = fault
        return self._last

    def remove(self, number: int) -> Fault | None:
        """Remove a fault, and return it with its hit count; None for an unknown number."""
        return self._faults.pop(number, None)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def take(self, request: ApiRequest) -> Fault | None:
        """Return the fault for `request`, and count the hit; None without one."""
        if not self._faults:
            return None
        for fault in self._faults.values():
            if fault.applies_to(request):
                fault.hits += 1
                return fault
        return None

    def expire_history(self, keep: int = 0) -> None:
        """Forget the past but for the last `keep` changes: watches and lists that go back there get 410."""
        self._store.expire_history(keep)

    def cut_connections(self) -> int:
        """Reset every connection there is, and return how many there were."""
        return self.connections()
