"""The store's availability, probed once for all Pets, and each Pet's delay until the next attempt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from manager import ObjectKey
from manager.telemetry.logs import get_logger
from manager.util.backoff import ExponentialDelay
from petstore.errors import NoAnswer, PetStoreError, Unreachable

if TYPE_CHECKING:
    from petstore.client import PetStoreClient

_PROBE_EVERY = (1.0, 2.0)
"""The range of the random delay, in seconds, between two probes of a store that is down."""

_PROBE_TIMEOUT = 2.0
"""The maximum timeout of a probe, in seconds."""

_NO_KEY = "probe"
"""A key that no Pet has: searching it costs the store almost nothing."""

_log = get_logger("petstore")


class StoreAvailability:
    """A watcher of the store's availability.

    A caller that gets no answer calls `doubt`, which starts probes. If a probe gets no answer either, the
    store is `down`, and no further calls are made. When the store answers again, all waiting Pets are queued
    at once, instead of each after its back-off. A store that answers probes but fails calls is not down; then
    Pets use their back-off.
    """

    def __init__(
        self, store: PetStoreClient, ask_for: Callable[[ObjectKey], None], *, rng: random.Random
    ) -> None:
        self.down = False
        """Whether the store did not answer the last probe."""
        self._store = store
        self._ask_for = ask_for
        self._rng = rng
        self._waiting: set[ObjectKey] = set()
        # The queue's back-off suits errors that last milliseconds, such as a conflict. A store is down for
        # seconds at least, and calls that time out delay the others.
        self._delay = ExponentialDelay(base=0.5, cap=30.0, rng=rng)
        self._failures: dict[ObjectKey, int] = {}
        self._doubt = asyncio.Event()

    def require(self) -> None:
        """Raise Unreachable if the store is down, so that the caller does not wait for a time-out."""
        if self.down:
            raise Unreachable("the pet store did not answer the last probe")

    def doubt(self) -> None:
        """Start probes; use this after a call that the store has not answered."""
        self._doubt.set()

    def wait(self, key: ObjectKey) -> None:
        """Add a Pet to those that are queued when the store answers again."""
        self._waiting.add(key)

    def try_again_after(self, key: ObjectKey) -> float:
        """Count a failure of the Pet; return the seconds to wait, from 0.5 up to 30."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return self._delay(failures)

    def forget(self, key: ObjectKey) -> None:
        """Delete the Pet's count of failures, and remove the Pet from those that wait for the store."""
        self._waiting.discard(key)
        self._failures.pop(key, None)

    def is_waiting(self, key: ObjectKey) -> bool:
        """Return whether the Pet will be queued when the store answers again."""
        return key in self._waiting

    async def run(self) -> None:
        """Probe the store after a `doubt` until it answers; repeat this until cancelled."""
        while True:
            await self._doubt.wait()
            while not await self._answers():
                if not self.down:
                    self.down = True
                    _log.warning("the pet store does not answer", address=self._store.address)
                await asyncio.sleep(self._rng.uniform(*_PROBE_EVERY))
            self._doubt.clear()
            if self.down:
                self.down = False
                waiting = len(self._waiting)
                _log.info("the pet store answers again", address=self._store.address, waiting=waiting)
                for key in self._waiting:
                    self._ask_for(key)
                self._waiting.clear()
            # The pause limits the rate of probes if calls fail while probes succeed.
            await asyncio.sleep(self._rng.uniform(*_PROBE_EVERY))

    async def _answers(self) -> bool:
        timeout = min(_PROBE_TIMEOUT, self._store.timeout)
        try:
            async for _ in self._store.search(keys=[_NO_KEY], timeout=timeout):
                pass
        except NoAnswer:
            return False
        except PetStoreError:
            return True  # an error is an answer, too
        return True
