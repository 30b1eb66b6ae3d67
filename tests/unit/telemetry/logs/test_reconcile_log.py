from __future__ import annotations

import asyncio

import structlog

from manager.telemetry.logs import get_logger, reconcile_log, reset_reconcile_log, set_reconcile_log


async def reconcile(name: str) -> None:
    log = get_logger("controller").bind(name=name)
    token = set_reconcile_log(log)
    try:
        await asyncio.sleep(0)
        reconcile_log().info("working")
    finally:
        reset_reconcile_log(token)


async def test_reconcile_log_is_separate_for_each_task():
    with structlog.testing.capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            for name in ("a", "b"):
                group.create_task(reconcile(name))
    assert sorted(line["name"] for line in lines) == ["a", "b"]


async def test_reconcile_log_is_a_plain_logger_outside_a_reconcile():
    await reconcile("a")
    with structlog.testing.capture_logs() as lines:
        reconcile_log().info("hello")
    assert [line.get("name") for line in lines] == [None]
