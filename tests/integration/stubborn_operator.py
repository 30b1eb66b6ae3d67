"""A program with one operator, whose reconciles do not end: each Foo says in which way.

python -m tests.integration.stubborn_operator run ...
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING

from apis.tutorial.v1.foo import Foo
from manager.cli import Operator, main
from manager.controller import ControllerBuilder
from manager.logs import get_logger

if TYPE_CHECKING:
    from manager.controller import ControllerOptions, Request, Result
    from manager.manager import Manager

__all__ = ["STUCK"]

STUCK = "stuck now"
"""What the log says once a reconcile does not end any more."""

_LONG = 60.0

_log = get_logger("stubborn")


class _Stubborn:
    def __init__(self, manager: Manager) -> None:
        self._client = manager.client

    async def reconcile(self, request: Request) -> Result | None:
        foo = await self._client.find(Foo, request)
        assert foo is not None
        _log.info(STUCK, how=foo.spec.name)
        match foo.spec.name:
            case "swallows-its-cancellation":
                while True:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(_LONG)
            case "thread":
                await asyncio.to_thread(time.sleep, _LONG)
            case "short-thread":
                await asyncio.to_thread(time.sleep, 3.0)
                _log.info("never said: the thread is not waited for any more")
            case "blocks-the-loop":
                await asyncio.sleep(0.2)  # for the log to be written, and the lease to be renewed
                time.sleep(_LONG)  # noqa: ASYNC251
            case "exits":
                sys.exit(0)
            case "cancels-all":
                for task in asyncio.all_tasks():
                    task.cancel()
            case "stops-the-loop":
                asyncio.get_running_loop().stop()
        return None


def setup(manager: Manager, options: ControllerOptions) -> None:
    """As every operator's."""
    ControllerBuilder(manager, Foo).options(options).complete(_Stubborn(manager))


if __name__ == "__main__":
    sys.exit(
        main(
            sys.argv[1:],
            (Operator("stubborn", "tests.integration.stubborn_operator"),),
            name="operator-manager",
            version="1",
        )
    )
