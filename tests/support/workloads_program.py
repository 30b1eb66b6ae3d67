"""`python -m examples.workloads`, as a person starts it: a process, seen through what it writes."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from tests.support.daemon import Daemon, wait_until

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (sys.executable, "-m", "examples.workloads")
SAYS_WITHIN = 90.0
ENDS_WITHIN = 90.0


class WorkloadsProgram:
    """One run of it; killed at the end of the `with` block if it still runs."""

    def __init__(self, kubeconfig: Path, *flags: str, folder: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        self.process = Daemon(
            folder.name,
            [*COMMAND, f"--kubeconfig={kubeconfig}", *flags],
            log=folder / "output.log",
            environ={**environ, "HOME": str(folder)},
        )

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        print(f"----- {self.process.name}: output -----\n{self.process.output()}")  # noqa: T201

    def wait_says(self, text: str, *, times: int = 1) -> None:
        """Wait until it has written this, so many times; fails at once when it ends instead."""
        wait_until(
            self.process,
            lambda: self.process.output().count(text) >= times,
            timeout=SAYS_WITHIN,
            what=f"{text!r}, {times} times",
        )

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.signal(signal.SIGINT)

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """A crash: it can clean up nothing."""
        self.process.kill()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(ENDS_WITHIN)

    def output(self) -> str:
        """All that it has written; that none of it is a traceback."""
        output = self.process.output()
        assert "Traceback" not in output, output
        return output
