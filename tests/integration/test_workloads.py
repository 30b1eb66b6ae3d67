"""examples/workloads, from its start to its end, whatever the end is."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, Self

import pytest

from tests.support.api_objects import deployment_path, object_path, pod_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.daemon import Daemon, wait_until
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy

COMMAND = (sys.executable, "-m", "examples.workloads")
SAYS_WITHIN = 90.0
ENDS_WITHIN = 90.0


class WorkloadsProgram:
    """A run of the program; the end of the `with` block kills it if it still runs."""

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
        """Wait until the program has written this so many times; fail at once if it ends."""
        wait_until(
            self.process,
            lambda: self.process.output().count(text) >= times,
            timeout=SAYS_WITHIN,
            what=f"{text!r}, {times} times",
        )

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the program, so that it cannot clean up."""
        self.process.kill()

    def wait(self) -> int:
        """Wait for the program's end; return its exit code."""
        return self.process.wait(ENDS_WITHIN)

    def output(self) -> str:
        """Return the program's output; assert that it has no traceback."""
        output = self.process.output()
        assert "Traceback" not in output, output
        return output


class Start(Protocol):
    """Function that starts the program on the namespace of the test."""

    def __call__(self, *flags: str, kubeconfig: Path | None = ...) -> WorkloadsProgram: ...


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    return control_plane.require(Feature.WORKLOADS, Feature.READY_PODS)


@pytest.fixture
def own_namespace(plane: ControlPlane) -> Iterator[str]:
    """Return a name for the program's namespace, and delete the namespace after the test."""
    name = f"workloads-{secrets.token_hex(4)}"
    yield name
    with contextlib.suppress(Exception):
        plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def start(plane: ControlPlane, own_namespace: str, tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:
        count = 0

        def start(*flags: str, kubeconfig: Path | None = None) -> WorkloadsProgram:
            nonlocal count
            count += 1
            return stack.enter_context(
                WorkloadsProgram(
                    kubeconfig or plane.kubeconfig,
                    f"--namespace={own_namespace}",
                    *flags,
                    folder=tmp_path / f"workloads-{count}",
                )
            )

        yield start


def has_gone(plane: ControlPlane, namespace: str) -> bool:
    return plane.api.find(f"/api/v1/namespaces/{namespace}") is None


@pytest.mark.contract
def test_workloads_runs_from_start_to_end(
    plane: ControlPlane, own_namespace: str, start: Start, fault_proxy: Callable[[Path], FaultProxy]
):
    def pods() -> list[str]:
        return [each["metadata"]["name"] for each in plane.api.get(pod_path(own_namespace))["items"]]

    def of_each_pod(text: str) -> None:
        for pod in pods():
            program.wait_says(text.format(pod))

    proxy = fault_proxy(plane.kubeconfig)
    program = start(kubeconfig=proxy.kubeconfig)
    program.wait_says("deployment hello-world: 2/2 ready")
    program.wait_says("following the pods' logs")
    assert plane.api.get(object_path("v1", own_namespace, "services", "hello-world"))
    ingress = plane.api.get(object_path("networking.k8s.io/v1", own_namespace, "ingresses", "hello-world"))
    path = ingress["spec"]["rules"][0]["http"]["paths"][0]
    assert (path["path"], path["backend"]["service"]["name"]) == ("/hello", "hello-world")

    # A pod that comes later is followed too. Where no node serves logs, each attempt at least says so.
    first = "{} | hello-world: started" if plane.supports(Feature.POD_LOGS) else "no log of pod {} for now"
    of_each_pod(first)
    plane.api.patch(deployment_path(own_namespace, "hello-world"), {"spec": {"replicas": 3}})
    eventually(lambda: len(pods()) == 3)
    of_each_pod(first)

    if plane.supports(Feature.POD_LOGS):
        # No line is lost when every connection breaks, and none comes twice.
        assert proxy.cut()
        of_each_pod("{} | hello-world: running for 5s")
        lines = [line for line in program.output().splitlines() if " | " in line]
        assert len(lines) == len(set(lines))

    program.interrupt()
    assert program.wait() == 0
    assert has_gone(plane, own_namespace)
    assert program.output().splitlines()[-3:] == [
        "SIGINT: cleaning up (once more ends at once)",
        f"deleting namespace {own_namespace} ...",
        f"deleted namespace {own_namespace}",
    ]
