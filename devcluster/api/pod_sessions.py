"""The processes and ports that exec, attach and port-forward find: scripts play them."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from devcluster.api.interfaces import Logs
from devcluster.api.pod_channels import CannotConnect, Session

__all__ = ["PodSessions", "Process"]

Object = dict[str, Any]

EXEC, EXEC_CODE = "devcluster.local/exec", "devcluster.local/exec-code"
"""The annotations with the output and the exit code of a process, for tests without a script."""


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A process that a client has come to."""

    pod: Object
    container: str
    command: Sequence[str]
    """Empty for the container's own, which attach leads to."""
    session: Session

    async def read(self) -> bytes:
        """Return more of stdin, nothing at its end."""
        return await self.session.read()

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Print to stdout, or to stderr."""
        await self.session.write(data, stderr=stderr)


ExecScript = Callable[[Process], Awaitable[int]]
"""Simulates a process, and returns its exit code."""

PortScript = Callable[[Object, int, Session], Awaitable[None]]
"""Simulates a server on a port of a pod, until it closes the connection."""


class PodSessions:
    """Processes in containers and ports of pods, simulated by a test's scripts.

        async def run(process: Process) -> int:
            await process.write(b"hello")
            return 0

        cluster.sessions.exec = run

    Without one, exec prints the annotation `devcluster.local/exec` or finds no program, attach shows what the
    container prints, and no port is open.
    """

    def __init__(self) -> None:
        self.exec: ExecScript | None = None
        self.attach: ExecScript | None = None
        self.port: PortScript | None = None
        self.logs: Logs | None = None

    async def run(self, pod: Object, container: str, command: Sequence[str], session: Session) -> int:
        """Let a client into a process, and return its exit code; without a command, into the container's own.

        Raises:
            CannotConnect: there is none.
        """
        _check_runs(pod, container)
        process = Process(pod, container, command, session)
        if command:
            return await (self.exec or _say)(process)
        await (self.attach or self._show_output)(process)
        return 0  # a kubelet does not report the end of the process to attach

    async def connect(self, pod: Object, port: int, session: Session) -> None:
        """Let a client talk to a port.

        Raises:
            CannotConnect: nothing listens there.
        """
        if self.port is None:
            raise CannotConnect(
                f"error forwarding port {port} to pod {pod['metadata']['uid']}, uid : failed to connect to "
                f"localhost:{port} inside namespace: dial tcp4 127.0.0.1:{port}: connect: connection refused"
            )
        await self.port(pod, port, session)

    async def _show_output(self, process: Process) -> int:
        if self.logs is not None:
            lines: Any = self.logs.stream(
                process.pod,
                process.container,
                follow=True,
                tail_lines=0,
                since=None,
                timestamps=False,
                previous=False,
            )
            async with aclosing(lines) as following:
                async for line in following:
                    await process.write(line)
        return 0


async def _say(process: Process) -> int:
    """Print what the pod's annotations say, and return their exit code."""
    annotations = process.pod["metadata"].get("annotations") or {}
    code = str(annotations.get(EXEC_CODE, "0"))
    if EXEC in annotations:
        await process.write(str(annotations[EXEC]).encode())
        return int(code) if code.isascii() and code.isdigit() else 1
    raise CannotConnect(
        "error executing command in container: failed to exec in container: failed to start exec: "
        "OCI runtime exec failed: exec failed: unable to start container process: "
        f'exec: "{process.command[0]}": executable file not found in $PATH: unknown'
    )


def _check_runs(pod: Object, container: str) -> None:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        if each["name"] == container and "running" in (each.get("state") or {}):
            return
    raise CannotConnect(f'unable to upgrade connection: container not found ("{container}")')
