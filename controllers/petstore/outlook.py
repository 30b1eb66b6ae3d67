"""Whether the store answers: found out once for all Pets, and when to ask it again for one of them."""

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
"""Seconds between two probes of a store that is down, at random in between."""

_PROBE_TIMEOUT = 2.0
"""Seconds that the store has to answer a probe."""

_NO_KEY = "probe"
"""No Pet's UID: a search for it costs the store next to nothing."""

_log = get_logger("petstore")


class Outlook:
    """Watches over the store while it is in doubt.

    Whoever gets no answer says so by `doubt`. From then on the store is probed: when it does not answer that
    either, it is `down`, and nobody needs to try; when it answers again, all Pets that waited are asked for
    at once, instead of each at the end of its own back-off. A store that answers probes and fails calls is
    not down, and leaves the Pets to their back-off.
    """

    def __init__(
        self, store: PetStoreClient, ask_for: Callable[[ObjectKey], None], *, rng: random.Random
    ) -> None:
        self.down = False
        """Whether the last probe had no answer."""
        self._store = store
        self._ask_for = ask_for
        self._rng = rng
        self._waiting: set[ObjectKey] = set()
        # The queue's own back-off is for what is over in milliseconds, as a conflict is; a store that is down
        # stays so for seconds at least, and calls that end by their deadline hold up the others.
        self._delay = ExponentialDelay(base=0.5, cap=30.0, rng=rng)
        self._failures: dict[ObjectKey, int] = {}
        self._doubt = asyncio.Event()

    def require(self) -> None:
        """Raises Unreachable when the store is down, which spares the wait for its answer."""
        if self.down:
            raise Unreachable("the last probe had no answer")

    def doubt(self) -> None:
        """A call had no answer."""
        self._doubt.set()

    def wait(self, key: ObjectKey) -> None:
        """Ask for that Pet when the store is back."""
        self._waiting.add(key)

    def try_again_after(self, key: ObjectKey) -> float:
        """The store has failed that Pet once more: seconds to wait, at first half a one, at last thirty."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return self._delay(failures)

    def forget(self, key: ObjectKey) -> None:
        """It worked for that Pet, or the Pet is gone."""
        self._waiting.discard(key)
        self._failures.pop(key, None)

    def is_waiting(self, key: ObjectKey) -> bool:
        """Whether that Pet waits for the store."""
        return key in self._waiting

    async def run(self) -> None:
        """Probe whenever there is doubt, until cancelled."""
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
            # Calls that fail while probes do not are no reason to probe all the time.
            await asyncio.sleep(self._rng.uniform(*_PROBE_EVERY))

    async def _answers(self) -> bool:
        timeout = min(_PROBE_TIMEOUT, self._store.timeout)
        try:
            async for _ in self._store.search(keys=[_NO_KEY], timeout=timeout):
                pass
        except NoAnswer:
            return False
        except PetStoreError:
            return True  # not what was hoped for, but an answer
        return True
