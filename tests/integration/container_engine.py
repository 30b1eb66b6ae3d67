"""The container engine of this machine, docker or podman, where one answers and has the base image."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, makefile
from tests.support.dockerfile import Dockerfile

TOOLS = ("docker", "podman")
# The restrictions of our pods: no root, no capabilities, read-only except for /tmp.
CONFINED = (
    "--read-only",
    "--tmpfs=/tmp",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
)
ANSWERS_WITHIN = 30.0
PULLED_WITHIN = 120.0
BUILT_WITHIN = 1800.0


class ContainerEngine:
    """Builds by make, as people do, and runs what was built; everything has names of this object's own."""

    def __init__(self, tool: str, base: str) -> None:
        self.tool = tool
        self._base = base
        self._tag = secrets.token_hex(4)

    @classmethod
    def find(cls) -> ContainerEngine:
        """Return CONTAINER_TOOL's engine, or the first that answers; skip the test without one."""
        if sys.platform != "linux":
            pytest.skip("the engine's machine is another one, which does not see the ports of this one")
        given = os.environ.get("CONTAINER_TOOL")
        reasons = []
        for tool in (given,) if given else TOOLS:
            reason = _why_not(tool)
            if reason is None:
                return cls(tool, _base_image(tool))
            reasons.append(f"{tool}: {reason}")
        pytest.skip(f"no container engine answers ({'; '.join(reasons)})")

    def image(self, name: str) -> str:
        """Return the test's tag for the image of that name."""
        return f"{name}-test:{self._tag}"

    def make(self, *arguments: str) -> None:
        """Run make with this engine, and with the base image that is here."""
        done = makefile.make(
            f"CONTAINER_TOOL={self.tool}", f"PYTHON_IMAGE={self._base}", *arguments, timeout=BUILT_WITHIN
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    def build(self, target: str) -> str:
        """Build a target that make has none for, and return its image."""
        base = f"--build-arg=PYTHON_IMAGE={self._base}"
        self.call(
            "build", base, f"--target={target}", f"--tag={self.image(target)}", ".", timeout=BUILT_WITHIN
        )
        return self.image(target)

    def call(self, *arguments: str, timeout: float = 60) -> str:
        """Run the client to its end, and return what it writes."""
        done = subprocess.run(
            [self.tool, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{self.tool} {' '.join(arguments)}\n{done.stderr[-4000:]}"
        return done.stdout

    def settings(self, image: str) -> dict[str, Any]:
        """Return the settings in the image: its user, labels, entry point and so on."""
        (found,) = json.loads(self.call("image", "inspect", image))
        settings: dict[str, Any] = found["Config"]
        return settings

    @contextlib.contextmanager
    def container(self, image: str, *, visible: Sequence[Path] = ()) -> Iterator[tuple[str, list[str]]]:
        """Yield a container name, and the command that runs it; arguments for the program may follow.

        It has the network of this machine, and sees the folders `visible` under their paths on this machine.
        """
        name = f"operator-manager-test-{secrets.token_hex(4)}"
        # `z`: also where SELinux keeps containers from the files of others.
        volumes = [f"--volume={folder}:{folder}:ro,z" for folder in visible]
        try:
            yield (
                name,
                [self.tool, "run", "--rm", f"--name={name}", "--network=host", *CONFINED, *volumes, image],
            )
        finally:
            subprocess.run([self.tool, "rm", "--force", name], capture_output=True, check=False, timeout=60)

    def remove_images(self, *names: str) -> None:
        """Remove those of these images that the test has built."""
        for name in names:
            subprocess.run(
                [self.tool, "image", "rm", "--force", self.image(name)],
                capture_output=True,
                check=False,
                timeout=60,
            )


def _why_not(tool: str) -> str | None:
    """Why the tool cannot be used; None when it can."""
    if shutil.which(tool) is None:
        return "not on the PATH"
    return _asked([tool, "version"], within=ANSWERS_WITHIN)


def _base_image(tool: str) -> str:
    """Return our images' base: PYTHON_IMAGE as in the Makefile, or the base in the Dockerfile."""
    base = os.environ.get("PYTHON_IMAGE") or Dockerfile.read().stages["build"].base
    problem: str | None = None
    for command, within in (("inspect", ANSWERS_WITHIN), ("pull", PULLED_WITHIN)):
        problem = _asked([tool, "image", command, base], within=within)
        if problem is None:
            return base
    pytest.skip(f"{tool} has no base image {base}, and cannot get it: {problem}")


def _asked(command: list[str], *, within: float) -> str | None:
    """Run an engine command; return its failure as one line, or None when it succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within)
    except subprocess.TimeoutExpired:
        return f"no answer within {within:g} s"
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else None
