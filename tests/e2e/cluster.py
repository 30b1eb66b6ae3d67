"""Runs kubectl, make, and programs in a pod, for the cluster in KUBECONFIG."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.daemon import Daemon
from tests.support.eventually import eventually

NAMESPACE = "operator-manager-e2e"
"""Namespace of the samples and the client pod."""
FAULTS = "operator-manager-e2e-faults"
"""Namespace of the tests of faults."""
SYSTEM = "operator-manager-system"
MANAGER = "deployment/operator-manager-controller-manager"
STORE = "deployment/operator-manager-petstore"
CLIENT = "client"
KINDS = "memcacheds,foos,pets,wordpresses,mysrvs"
OUT = ROOT / "build/e2e"

KUBECTL = os.environ.get("KUBECTL", "kubectl")
IMG = os.environ.get("IMG", "")
PETSTORE_IMG = os.environ.get("PETSTORE_IMG", "")

_BEGAN = time.monotonic()
_RUNTIMES = ("containerd://", "cri-o://", "docker://")
# An outer make passes its own flags in these variables.
_ENVIRON = {
    name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
}


class CommandFailed(AssertionError):
    """Error: a command had an unexpected exit code; the message has the command and its output."""


def say(text: str) -> None:
    """Print the text with the time since the start of the tests."""
    seconds = int(time.monotonic() - _BEGAN)
    for line in text.rstrip().splitlines():
        print(f"{seconds // 60:2}:{seconds % 60:02}  {line}", flush=True)


def run(
    *command: str | Path, within: float = 120, stdin: str | None = None, codes: tuple[int, ...] = (0,)
) -> str:
    """Run a command in the checkout and return its stdout.

    Args:
        command: the program and its arguments.
        within: seconds after which the command is killed.
        stdin: text for its stdin.
        codes: exit codes that count as success.

    Raises:
        CommandFailed: with the last 3000 characters of its stderr.
    """
    line = " ".join(map(str, command))[:200]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_ENVIRON,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{line}: no end within {within:g} s") from error
    if done.returncode not in codes:
        raise CommandFailed(
            f"{line}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-3000:]}"
        )
    return done.stdout


def kubectl(*arguments: str, namespace: str = NAMESPACE, **options: Any) -> str:
    """Run kubectl in a namespace; `options` are those of `run`."""
    return run(KUBECTL, f"--namespace={namespace}", *arguments, **options)


def get(*arguments: str, namespace: str = NAMESPACE) -> Any:
    """Return the object, or the items of the list, that `kubectl get --output=json` prints."""
    found = json.loads(kubectl("get", *arguments, "--output=json", namespace=namespace))
    return found["items"] if found["kind"].endswith("List") else found


def apply(*objects: Mapping[str, Any], namespace: str = NAMESPACE) -> None:
    kubectl(
        "apply",
        "--filename=-",
        namespace=namespace,
        stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}),
    )


def make(*arguments: str) -> str:
    """Run a make target with the images that these tests use."""
    say(f"$ make {' '.join(arguments)}")
    return run(
        "make",
        "--no-print-directory",
        *arguments,
        f"IMG={IMG}",
        f"PETSTORE_IMG={PETSTORE_IMG}",
        f"KUBECTL={KUBECTL}",
        within=300,
    )


def deploy(overlay: str = "default") -> None:
    """Run `make deploy`, and wait until all pods have the new version and are ready."""
    make("deploy", *([] if overlay == "default" else [f"OVERLAY={overlay}"]))
    wait_for_rollout()


def wait_for_rollout() -> None:
    """Wait until the Deployments of manager and store are rolled out and their old pods have ended."""
    for each in (MANAGER, STORE):
        kubectl("rollout", "status", each, "--timeout=180s", namespace=SYSTEM, within=200)
    eventually(lambda: all("deletionTimestamp" not in pod["metadata"] for pod in manager_pods()), every=0.5)


def manager_pods() -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = get("pods", "--selector=control-plane=controller-manager", namespace=SYSTEM)
    return pods


def condition(it: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition of type `kind`; raise AssertionError if it is missing or outdated."""
    status = it.get("status", {})
    found = {each["type"]: each for each in status.get("conditions", ())}
    assert kind in found, f"{it['kind']} {it['metadata']['name']} has no condition {kind}: {sorted(found)}"
    generations = status.get("observedGeneration", it["metadata"]["generation"]), it["metadata"]["generation"]
    assert generations[0] == generations[1], (
        f"the status is of generation {generations[0]} of {generations[1]}"
    )
    one: Mapping[str, Any] = found[kind]
    return one


def wait_for(
    kind: str, name: str, what: str = "Available", *, status: str = "True", within: float = 120
) -> Any:
    """Wait until the condition `what` of a custom resource has this status; return the object."""

    def reached() -> Any:
        it = get(kind, name)
        found = condition(it, what)
        assert found["status"] == status, (
            f"{kind} {name}: {what} is {found['status']}: {found['reason']}: {found['message']}"
        )
        return it

    return eventually(reached, within=within, every=0.5)


def in_cluster(*arguments: str, within: float = 60) -> Any:
    """Run a command of client.py in the client pod; return the JSON that it prints."""
    program = (Path(__file__).parent / "client.py").read_text()
    command = ("exec", "--stdin", CLIENT, "--", "python", "-", *arguments)
    return json.loads(kubectl(*command, stdin=program, within=within))


@contextlib.contextmanager
def served_by(pattern: str, *command: str | Path) -> Iterator[str]:
    """Run a server during the block; yield the part of its output that the group in `pattern` matches."""
    with tempfile.TemporaryDirectory() as folder:
        program = Daemon(str(command[0]), command, log=Path(folder) / "log", environ=_ENVIRON)

        def found() -> str:
            match = re.search(pattern, program.output())
            assert match, program.tail()
            return match[1]

        program.start()
        try:
            yield eventually(found, within=30)
        finally:
            program.stop(grace=10)


@contextlib.contextmanager
def forwarded(target: str, port: int, *, namespace: str = NAMESPACE) -> Iterator[int]:
    """Forward a free local port to a pod or Service with kubectl; yield the port."""
    command = (KUBECTL, f"--namespace={namespace}", "port-forward", "--address=127.0.0.1", target, f":{port}")
    with served_by(r"127\.0\.0\.1:(\d+) ->", *command) as found:
        yield int(found)


def program(name: str) -> Path:
    """Return the path of a program of this project, in the environment that runs the tests."""
    return Path(sys.executable).with_name(name)


def explain(kind: str, name: str, *flags: str | Path, namespace: str = NAMESPACE) -> str:
    """Return the output of `operator-manager explain`, whether or not the object is ready."""
    return run(
        program("operator-manager"),
        "explain",
        f"{kind}/{name}",
        f"--namespace={namespace}",
        *flags,
        codes=(0, 3),
    )


def nodes() -> list[dict[str, Any]]:
    """Return the schedulable nodes."""
    return [
        node
        for node in get("nodes")
        if not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in node["spec"].get("taints", ()))
    ]


def why_not(kubeconfig: str | None) -> str | None:
    """Return one line that says why the tests cannot run on this cluster; None if they can."""
    if not kubeconfig:
        return "KUBECONFIG names no cluster"
    try:
        found = nodes()
    except (AssertionError, OSError) as error:
        return f"the cluster of KUBECONFIG does not answer: {str(error).splitlines()[-1]}"
    if not found:
        return "the cluster of KUBECONFIG has no node that takes pods"
    simulated = [node["metadata"]["name"] for node in found if not _runs_containers(node)]
    return f"no kubelet runs on node {simulated[0]}: it is simulated" if simulated else None


def _runs_containers(node: Mapping[str, Any]) -> bool:
    runtime = node["status"].get("nodeInfo", {}).get("containerRuntimeVersion", "")
    return runtime.startswith(_RUNTIMES) and "kwok.x-k8s.io/node" not in node["metadata"].get(
        "annotations", {}
    )


def seconds_since(began: float) -> str:
    """Return the time since `began`, a value of `time.monotonic`, as text."""
    return f"{time.monotonic() - began:.1f} s"
