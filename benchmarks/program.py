"""A program under measurement: any operator that works on Memcacheds and can be told its kubeconfig."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.daemon import Daemon
from tests.support.manager_process import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

# The manager's own default.
CONCURRENCY = 8
ROOT = Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A name for the table, and the command; `{kubeconfig}` in it stands for the file."""

    name: str
    command: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `NAME=COMMAND`, as given on the command line.

        Raises:
            ValueError: it has another form.
        """
        name, found, command = text.partition("=")
        if not found or not name or "{kubeconfig}" not in command:
            raise ValueError(f"{text!r} is not NAME=COMMAND with {{kubeconfig}} in the command")
        return cls(name, shlex.split(command))

    def daemon(self, kubeconfig: Path, folder: Path) -> Daemon:
        """The process, not yet started."""
        command = [part.replace("{kubeconfig}", str(kubeconfig)) for part in self.command]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        return Daemon(self.name, command, log=folder / f"{self.name}.log", environ=environ)


def manager(concurrency: int = CONCURRENCY, *, health_address: str = "0") -> Program:
    """This project's manager, with nothing else on."""
    command = [
        str(PROGRAM),
        "run",
        "--kubeconfig={kubeconfig}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={health_address}",
        "--controllers=memcached",
        f"--concurrency=memcached={concurrency}",
        "--log-level=warn",
    ]
    return Program("manager", command)


def bare_loop(concurrency: int = CONCURRENCY) -> Program:
    """The yardstick."""
    command = [sys.executable, "-m", "benchmarks.bare_loop", "--kubeconfig={kubeconfig}"]
    return Program("bare", [*command, f"--concurrency={concurrency}"])
