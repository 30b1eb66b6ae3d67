"""A program with reconciles that never end; the spec of a Foo selects how its reconcile blocks.

python -m tests.integration.stubborn_operator run ...
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

from apis.tutorial.v1.foo import Foo
from manager import Context, Operator
from manager.cli import main
from manager.kube.errors import Fenced
from manager.telemetry.logs import get_logger
from manager_kinds.core_v1 import ConfigMap

__all__ = ["STUCK"]

STUCK = "stuck now"
"""Log message when a reconcile begins to block."""

_LONG = 60.0

_log = get_logger("stubborn")
_left: list[asyncio.Task[None]] = []


async def _write_for_ever(ctx: Context, namespace: str) -> None:
    meta = {"generateName": "written-", "namespace": namespace}
    while True:
        with contextlib.suppress(Fenced):
            await ctx.client.create(ConfigMap.model_validate({"metadata": meta}))
        await asyncio.sleep(0.01)


async def _exit() -> None:
    sys.exit(0)


class StubbornOperator(Operator[Foo]):
    """Operator whose reconciles ignore cancellation."""

    async def reconcile(self, foo: Foo, ctx: Context) -> None:
        if foo.spec.name == "blocks-the-loop":
            await asyncio.sleep(0.2)  # the lease is renewed before the block
        _log.info(STUCK, how=foo.spec.name)
        match foo.spec.name:
            case "swallows-its-cancellation":
                while True:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(_LONG)
            case "thread":
                await asyncio.to_thread(time.sleep, _LONG)
            case "blocks-the-loop":
                time.sleep(_LONG)  # noqa: ASYNC251
            case "leaves-a-task-that-writes":
                _left.append(asyncio.create_task(_write_for_ever(ctx, foo.metadata.namespace)))
            case "exits-in-a-task":
                _left.append(asyncio.create_task(_exit()))
            case "cancels-all":
                for task in asyncio.all_tasks():
                    task.cancel()
            case "stops-the-loop":
                asyncio.get_running_loop().stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (StubbornOperator,), name="operator-manager", version="1"))
