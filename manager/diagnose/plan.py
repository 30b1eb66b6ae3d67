"""A plan: the writes of an object's reconcile, tried as a dry run."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from manager.api import ObjectKey
from manager.controller import Controller
from manager.controller.failure import Failure, explain
from manager.diagnose.differences import differs
from manager.diagnose.dry_run import IN_A_POD, Change, DryRunTransport
from manager.kube.errors import Fenced
from manager.telemetry.logs import get_logger

OUTSIDE = "what comes next is outside of the cluster, and a plan calls nothing there"
"""The reason why nothing is permitted that needs leadership, as people see it."""

_log = get_logger("plan")


class Planned(NamedTuple):
    """The writes that the reconcile of an object would send."""

    changes: list[Change]
    other: list[str]
    """Requests of other sorts: an eviction, a scale."""

    ends: str = ""
    """Why the plan is incomplete, if it is."""

    failed: bool = False


async def plan(controller: Controller, key: ObjectKey, transport: DryRunTransport) -> Planned:
    """Reconcile one object as a dry run."""
    ends, failed = "", False
    with transport.planning() as taken:
        try:
            async with asyncio.timeout(controller.options.reconcile_timeout):
                await controller.reconciler.reconcile(key)
        except Fenced as error:
            ends, failed = str(error), str(error) not in {OUTSIDE, IN_A_POD}
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            ends, failed = f"{type(error).__name__}: {explain(error)}", True
            if Failure.of(error, primary=controller.primary, key=key).has_traceback:
                _log.error("a reconcile failed", controller=controller.name, object=str(key), exc_info=error)
    changes, other = taken()
    return Planned([each for each in changes if differs(each)], other, ends, failed)
