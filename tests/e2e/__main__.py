"""`make e2e`: end-to-end tests on the cluster in KUBECONFIG, if the cluster has real nodes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.cluster import FAULTS, KINDS, NAMESPACE, SYSTEM, get, kubectl, say, why_not

FILES = ("test_samples.py", "test_pod_streams.py", "test_faults.py", "test_manager.py", "test_removal.py")


class State:
    """Pytest plugin that adds the state of the cluster to the report of a failed test."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            report.sections.append(("the cluster", _state()))
        return report


def _state() -> str:
    """Return a text with objects, pods, details of unready pods, and the manager's last log lines."""
    told = []

    def add(*arguments: str, namespace: str = NAMESPACE) -> None:
        try:
            output = kubectl(*arguments, namespace=namespace, within=30)
        except AssertionError as error:
            output = str(error)
        told.append(f"$ kubectl {' '.join(arguments)} --namespace={namespace}\n{output}")

    add("get", KINDS, "--all-namespaces", "--output=wide")
    add("get", "nodes,pods", "--all-namespaces", "--output=wide")
    for namespace in (SYSTEM, NAMESPACE, FAULTS):
        with contextlib.suppress(AssertionError):
            for pod in get("pods", namespace=namespace):
                conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
                if conditions.get("Ready") != "True":
                    add("describe", "pod", pod["metadata"]["name"], namespace=namespace)
    add("logs", "--selector=control-plane=controller-manager", "--tail=10", "--prefix", namespace=SYSTEM)
    return "\n".join(told)


def main() -> int:
    """Run the tests; return pytest's exit code, or 0 if there is no suitable cluster."""
    reason = why_not(os.environ.get("KUBECONFIG"))
    if reason is not None:
        print(f"make e2e: skipped: {reason}")
        return 0
    # tests/conftest.py is left out, because it starts control planes.
    folder = Path(__file__).parent
    flags = ["--verbose", "-rs", "--no-header", "--capture=no", "--tb=short"]
    flags += ["-p", "no:randomly", "-p", "no:xdist"]
    flags.append("--timeout=300")  # each wait has its own, shorter limit
    files = [f"{folder / each}" for each in FILES]
    code = pytest.main([*flags, f"--confcutdir={folder}", *files, *sys.argv[1:]], plugins=[State()])
    say(f"ended with exit code {int(code)}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
