"""The logs of all pods of the Deployment, also of pods that start later."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from examples.workloads.line_printer import LinePrinter
from examples.workloads.log_follower import LogFollower
from examples.workloads.objects import NAME, SELECTOR
from manager.client import Client
from manager_kinds.core_v1 import Pod

__all__ = ["follow_logs"]


async def follow_logs(client: Client, namespace: str) -> None:
    """Print each line of the logs with its pod's name; return when the output's reader has ended."""
    printer = LinePrinter(sys.stdout.fileno())
    followers: dict[str, LogFollower] = {}
    try:
        async with (
            client.watch(Pod, namespace=namespace, label_selector=SELECTOR) as live,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(printer.run(), name="print")
            async for pods in live:
                present = {pod.metadata.uid: pod for pod in pods}
                for uid in followers.keys() - present.keys():
                    followers.pop(uid).pod_has_gone()
                for uid, pod in present.items():
                    if uid not in followers and _has_started(pod):
                        follower = LogFollower(client, pod, NAME, show=_prefixed(pod, printer))
                        followers[uid] = follower
                        tasks.create_task(follower.run(), name=f"follow {pod.metadata.name}")
    except* BrokenPipeError:
        pass  # the reader has ended, as with `| head`


def _has_started(pod: Pod) -> bool:
    for status in pod.status.get("containerStatuses", ()):
        if status["name"] == NAME:
            states = status.get("state", {}).keys() | status.get("lastState", {}).keys()
            return not states.isdisjoint({"running", "terminated"})
    return False


def _prefixed(pod: Pod, printer: LinePrinter) -> Callable[[str], Awaitable[None]]:
    return lambda line: printer.print(f"{pod.metadata.name} | {line}".encode())
