"""The part of a Dask scheduler's HTTP API that the operators use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

import aiohttp

from manager import Blocked

DASHBOARD = 8787
"""The port of the API."""


class SchedulerAway(Blocked):
    """An error: the scheduler gives no valid answer, because it is starting or being replaced."""

    def __init__(self, address: str, why: object) -> None:
        message = f"the scheduler at {address} does not answer: {why}"
        super().__init__("SchedulerAway", message, awaited=True, retry_after=5)


class SchedulerClient:
    """A client of schedulers, whose addresses are `HOST:PORT`; tests replace the client."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=4))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def wanted_workers(self, address: str) -> int:
        """Return the number of workers for which the scheduler has work."""
        with _valid_answer(address):
            return int((await self._ask("GET", address, "adaptive_target"))["workers"])

    async def idle_since(self, address: str) -> datetime | None:
        """Return the time since when the scheduler has had no work; None while it has work."""
        with _valid_answer(address):
            since = (await self._ask("GET", address, "check_idle"))["idle_since"]
            return None if since is None else datetime.fromtimestamp(float(since), UTC)

    async def retire(self, address: str, names: Sequence[str]) -> None:
        """Ask workers to hand over their data and stop; workers that have stopped already are ignored."""
        with _valid_answer(address):
            known = (await self._ask("GET", address, "get_workers"))["workers"]
            leaving = [each["address"] for each in known if each["name"] in names]
            if leaving:
                await self._ask("POST", address, "retire_workers", {"workers": leaving})

    async def _ask(self, method: str, address: str, what: str, body: Any = None) -> Any:
        async with self._session.request(method, f"http://{address}/api/v1/{what}", json=body) as answer:
            answer.raise_for_status()
            return await answer.json()


@contextmanager
def _valid_answer(address: str) -> Iterator[None]:
    """Raise SchedulerAway for a request without an answer, and for an answer of another form."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        raise SchedulerAway(address, error) from error
    except (LookupError, OverflowError, TypeError, ValueError) as error:
        raise SchedulerAway(address, f"invalid answer: {error!r}") from error
