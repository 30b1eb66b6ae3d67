"""A measured program: an operator of Memcacheds that takes a kubeconfig as an argument."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The default concurrency of this project's manager.
CONCURRENCY = 8
MEMCACHED = "memcached"
ROOT = Path(__file__).parents[1]
# Variables with the processors for the control plane and for the measured program, such as "0,1" or "2-5".
SERVER_CPUS, PROGRAM_CPUS = "BENCH_SERVER_CPUS", "BENCH_PROGRAM_CPUS"


@dataclasses.dataclass(frozen=True, slots=True)
class Election:
    """The Lease for which the replicas of one program compete."""

    lease: str
    namespace: str = "default"

    def flags(self) -> list[str]:
        """Return the flags for leader election, which are the same for every program."""
        return [
            "--leader-elect",
            f"--leader-election-id={self.lease}",
            f"--leader-election-namespace={self.namespace}",
        ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings for one start of a program."""

    workload: str = MEMCACHED
    concurrency: int = CONCURRENCY
    health_address: str = "0"
    """The address of /readyz as HOST:PORT; "0" for none."""
    metrics_address: str = "0"
    """The address of /metrics, for programs with such a flag."""
    election: Election | None = None
    flags: Sequence[str] = ()
    """More flags, which come last in the command."""
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Environment variables in addition to those of the benchmark process."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program to measure, as a command with a name for the tables.

    In the command, `{kubeconfig}` is replaced by the file, and `{workload}`, `{concurrency}`, `{health}` and
    `{metrics}` by values of the setting. The flags of leader election are appended if it is enabled.
    """

    name: str
    command: Sequence[str]
    others: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """The commands for workloads that have a separate command."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `NAME=COMMAND` from the command line; raise ValueError if the text has another form."""
        name, found, command = text.partition("=")
        if not found or not name or "{kubeconfig}" not in command:
            raise ValueError(f"{text!r} is not NAME=COMMAND with {{kubeconfig}} in the command")
        return cls(name, shlex.split(command))

    @property
    def tells_readiness(self) -> bool:
        """Return whether the command has a flag for the address of /readyz."""
        return any("{health}" in part for part in self.command)

    def arguments(self, kubeconfig: Path, setting: Setting) -> list[str]:
        """Return the command line with the kubeconfig and the setting's values filled in."""
        values = {
            "{kubeconfig}": str(kubeconfig),
            "{workload}": setting.workload,
            "{concurrency}": str(setting.concurrency),
            "{health}": setting.health_address,
            "{metrics}": setting.metrics_address,
        }
        filled = []
        for part in self.others.get(setting.workload, self.command):
            for placeholder, value in values.items():
                part = part.replace(placeholder, value)  # noqa: PLW2901 -- each step replaces one placeholder
            filled.append(part)
        filled += setting.election.flags() if setting.election else []
        return [*filled, *setting.flags]

    def daemon(
        self, kubeconfig: Path, folder: Path, setting: Setting | None = None, *, replica: str = ""
    ) -> Daemon:
        """Return a process that is not started yet; `replica`, such as "-1", is appended to its name."""
        name = f"{self.name}{replica}"
        setting = setting or Setting()
        arguments, environ = self.arguments(kubeconfig, setting), {**os.environ, **setting.environ}
        if "-m" in arguments:
            environ["PYTHONPATH"] = str(ROOT)  # a module of this suite, and not of another installed version
        log = folder / f"{name.replace(' ', '-').replace('/', '-')}.log"
        command = [*pinned_by(PROGRAM_CPUS), *arguments]
        return Daemon(name, command, log=log, environ=environ)


def pinned_by(variable: str) -> list[str]:
    """Return the command prefix that limits a program to the processors listed in an environment variable."""
    cpus = os.environ.get(variable, "")
    return ["taskset", "--cpu-list", cpus] if cpus else []


def by_contract(name: str, *command: str, concurrency: int | None = None) -> Program:
    flags = ["--kubeconfig={kubeconfig}", f"--concurrency={concurrency or '{concurrency}'}"]
    flags += ["--health-probe-bind-address={health}", "--workload={workload}"]
    return Program(name, [*command, *flags])
