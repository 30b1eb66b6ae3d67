"""A shell in a folder of its own, in which the commands of the documentation mean what they say there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support import ROOT
from tests.support.control_plane import KUBECTL, ControlPlane
from tests.support.daemon import Daemon
from tests.support.eventually import eventually
from tests.support.ports import PortBlock
from tests.support.transcript import Command, difference

PROGRAMS = Path(sys.executable).parent
TIMEOUT = 120.0
ONLY_LOOK = ("kubectl get ", "kubectl describe ", "kubectl wait ", "kubectl logs ", "petstore search", "cat ")
"""Commands that may be repeated until they show what a page does; a person would wait a moment too."""
REFUSALS = ("Error from server", "The ")
"""What a line of kubectl begins with where it says that something is refused."""
COMPLAINTS = (*REFUSALS, "Warning: ")
"""What a line of kubectl begins with that goes to standard error."""

# A port of the pages may be taken on this machine, so that the store listens at another one.
_PETSTORE = """\
#!/bin/sh
[ "$1" != serve ] || set -- "$@" --bind-address="$PETSTORE_ADDRESS" --metrics-bind-address=127.0.0.1:{metrics}
exec "{program}" "$@"
"""


class Terminal:
    """Runs commands against a control plane, for the length of a `with` block; then what it started ends."""

    def __init__(
        self, folder: Path, plane: ControlPlane | None = None, *, config: Path = ROOT / "config"
    ) -> None:
        """Create a terminal; `config` replaces the folder of that name in commands."""
        self._folder = folder
        self._ports = PortBlock(2)
        self._stack = contextlib.ExitStack()
        self.petstore_address = f"127.0.0.1:{self._ports[0]}"
        programs = folder / "programs"
        programs.mkdir(parents=True)
        store = programs / "petstore"
        store.write_text(_PETSTORE.format(program=PROGRAMS / "petstore", metrics=self._ports[1]))
        store.chmod(0o755)
        (folder / ".venv").symlink_to(PROGRAMS.parent)
        (folder / "config").symlink_to(config)
        self.environ = {
            **os.environ,
            "PATH": f"{programs}:{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(folder),  # for what kubectl keeps
            **KUBECTL,
            "PETSTORE_ADDRESS": self.petstore_address,
        }
        if plane is not None:
            (programs / "kubectl").symlink_to(plane.kubectl_program())
            self.environ["KUBECONFIG"] = str(plane.kubeconfig)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._ports.close()

    def write(self, name: str, text: str) -> None:
        """Write a file that commands name."""
        (self._folder / name).write_text(text)

    def follow(self, command: Command) -> None:
        """Run a command of a page; it has to succeed, and to print what the page shows."""
        if command.in_background:
            self._start(command)
        elif command.text.startswith(ONLY_LOOK):
            eventually(lambda: self._shows(command))
        else:
            self._shows(command)

    def run(self, text: str) -> str:
        """Return a command's output; raise AssertionError with all output when it fails."""
        done = self._run(text)
        assert done.returncode == 0, f"{text}\nended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def _run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", text],
            cwd=self._folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def _shows(self, command: Command) -> None:
        if any(line.startswith(REFUSALS) for line in command.shown):
            done = self._run(command.text)
            assert done.returncode == 1, f"{command.where}: {command.text}\nis not refused: {done.stdout}"
            came = done.stderr + done.stdout
        elif any(line.startswith(COMPLAINTS) for line in command.shown):
            came = self.run(f"{{ {command.text}; }} 2>&1")
        else:
            came = self.run(command.text)
        wrong = difference(command.shown, came) if command.shown else None
        assert wrong is None, f"{command.where}: {command.text}\n{wrong}"

    def _start(self, command: Command) -> None:
        text = command.text.removesuffix("&").strip()
        log = self._folder / f"{Path(text.split()[0]).name}.log"
        program = ["/bin/bash", "-c", f"cd {self._folder} && exec {text}"]
        daemon = Daemon(text, program, log=log, environ=self.environ)
        self._stack.callback(daemon.stop)
        daemon.start()
        if command.shown:
            eventually(lambda: self._has_said(daemon, command))

    def _has_said(self, daemon: Daemon, command: Command) -> None:
        wrong = difference(command.shown, daemon.output())
        assert wrong is None, f"{command.where}: {command.text}\n{wrong}"
