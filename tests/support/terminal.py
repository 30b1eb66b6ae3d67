"""Shell sessions in the documentation, and a shell that runs their commands."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support import ROOT
from tests.support.control_plane import KUBECTL, ControlPlane
from tests.support.daemon import Daemon
from tests.support.eventually import eventually
from tests.support.markdown import Block
from tests.support.ports import PortBlock

PROGRAMS = Path(sys.executable).parent
TIMEOUT = 120.0
ONLY_LOOK = ("kubectl get ", "kubectl describe ", "kubectl wait ", "kubectl logs ", "petstore search", "cat ")
"""Commands that are repeated until they print the documented output."""
REFUSALS = ("Error from server", "The ")
"""Beginnings of kubectl's error lines."""
COMPLAINTS = (*REFUSALS, "Warning: ")
"""Beginnings of lines that kubectl writes to stderr."""

# The documented port may be in use on this machine, so the store gets another one.
_PETSTORE = """\
#!/bin/sh
[ "$1" != serve ] || set -- "$@" --bind-address="$PETSTORE_ADDRESS" --metrics-bind-address=127.0.0.1:{metrics}
exec "{program}" "$@"
"""


class Terminal:
    """Shell for a `with` block, with access to a control plane; the end of the block ends its processes."""

    def __init__(
        self, folder: Path, plane: ControlPlane | None = None, *, config: Path = ROOT / "config"
    ) -> None:
        """Create a shell in `folder`; commands see `config` as their folder `config/`."""
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
            "HOME": str(folder),  # for kubectl's cache
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
        """Write a file in the shell's folder."""
        (self._folder / name).write_text(text)

    def follow(self, command: Command) -> None:
        """Run a command of the documentation; assert that its output and success are as documented."""
        if command.in_background:
            self._start(command)
        elif command.text.startswith(ONLY_LOOK):
            eventually(lambda: self._shows(command))
        else:
            self._shows(command)

    def run(self, text: str) -> str:
        """Return a command's stdout; raise AssertionError with all output when it fails."""
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


_PROMPT = "$ "
_REMARK = re.compile(r"\s{2,}#( .*)?$")
_ANYTHING = "..."

_DIFFERS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    # A pod's suffix: the hash of its template, and five random letters.
    (r"-[0-9a-z]{7,10}-[0-9a-z]{5}\b", "-<pod>"),
    (r"(?<![\w.-])(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?<=\d[dhms])(?![\w.-])", "<age>"),
    (r"<age> \(x\d+ over <age>\)", "<age>"),
    # An address on this machine, and any port that a test chooses.
    (r"(127\.0\.0\.1)?:\d{4,5}\b", ":<port>"),
    (r"\b3[0-2]\d{3}\b", "<node port>"),
    # kubectl says so since 1.34.
    (r"( deleted) from \S+ namespace$", r"\1"),
)
"""Patterns of output that varies with the run or the version, and their replacements."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command in the documentation, and its documented output."""

    where: str
    text: str
    shown: tuple[str, ...] = ()
    """Documented lines; empty if the page shows no output, and then any output is correct."""

    @property
    def in_background(self) -> bool:
        return self.text.endswith("&")


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a code block in order, without their comments.

    In a block of sh, each line is a command, unless it continues the line before. In a block of console, a
    command follows each prompt, and the lines below it are its output.
    """
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        yield from _typed(block.where, lines)
        return
    for line in lines:
        if text := _without_remark(line):
            yield Command(block.where, text)


def _typed(where: str, lines: Iterable[str]) -> Iterator[Command]:
    text, shown = "", list[str]()
    for line in [*lines, _PROMPT]:
        if line.startswith(_PROMPT):
            if text:
                yield Command(where, text, tuple(shown))
            text, shown = _without_remark(line.removeprefix(_PROMPT)), []
        elif line.strip():
            shown.append(line)


def _without_remark(line: str) -> str:
    text = "" if line.startswith("#") else _REMARK.sub("", line)
    return " ".join(text.split())


def difference(shown: Iterable[str], came: str) -> str | None:
    """Return None if the output `came` matches the documented lines, else a message.

    Times, UUIDs, ports and other variable parts are ignored. A documented line `...` matches any lines, and
    `...` within a line matches any text.
    """
    pattern = "".join(map(_pattern, shown))
    text = "".join(f"{_plain(line)}\n" for line in came.splitlines() if line.strip())
    if re.fullmatch(pattern, text):
        return None
    return "shown:\n" + "\n".join(shown) + f"\nwhat came:\n{came}"


def _pattern(line: str) -> str:
    if line.strip() == _ANYTHING:
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, _plain(line).split(_ANYTHING))) + r"\n"


def _plain(line: str) -> str:
    text = " ".join(line.split())
    for differs, instead in _DIFFERS:
        text = re.sub(differs, instead, text)
    return text


WALKED = ("README.md", "docs/operators.md")
"""Pages whose console blocks are run with a control plane and a manager."""

WALKED_ALONE = ("docs/petstore.md", "docs/devcluster.md")
"""Pages whose console blocks need no control plane and no manager."""

ELSEWHERE: Mapping[str, str] = {
    "docs/writing-an-operator.md": (
        "tests/integration/test_documentation.py::test_documented_operator_gives_the_output_shown_on_its_page"
    ),
    "docs/webhooks.md": ("tests/integration/test_documentation.py::test_documented_webhooks_answer_reviews"),
    "docs/operations.md": (
        "tests/integration/test_documentation.py::"
        "test_petstore_starts_from_a_backup_made_as_the_operations_page_describes"
    ),
    "examples/workloads/README.md": (
        "tests/integration/test_workloads.py::test_workloads_example_deletes_its_namespace_after_sigint"
    ),
}
"""Other pages with console blocks, and the test that runs each of them."""
