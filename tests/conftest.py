"""Fixtures for all tests; a test whose control plane cannot run here is skipped with a reason."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
import uvloop
from blockbuster import BlockBuster

from manager.util.memory import tune_garbage_collector
from manager_tools.simulation.loop import VirtualLoop
from tests.support import LIBRARY_PACKAGES, left_behind, time_limit
from tests.support.api_objects import new_namespace, storage_classes
from tests.support.control_plane import ControlPlane, Lacking
from tests.support.control_plane_kinds import KINDS, ControlPlaneKind
from tests.support.crds import install_crds
from tests.support.envtest import BARE
from tests.support.fault_proxy import FaultProxy
from tests.support.fork_server import fork_our_programs
from tests.support.kubeconfig import Credentials
from tests.support.manager_process import ManagerProcess
from tests.support.scheduling import (
    KIND_PARAMETER,
    EndsWithItsTests,
    UnitScheduling,
    arrange,
    has_business_on,
    runs_nowhere_else,
)

# Only `make e2e` runs these tests, which need a cluster with real nodes.
collect_ignore = ["e2e"]

# All test workers and their processes share a bytecode cache.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# kubectl and helm end before garbage matters. A real API server has its own memory limit.
os.environ.setdefault("GOGC", "400")
# rich colours the whole source file of each frame of a logged traceback.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--all-on-envtest`: all tests on the real control plane, more Hypothesis examples."""
    parser.addoption(
        "--all-on-envtest",
        action="store_true",
        help="run all integration tests also on the real control plane, and more Hypothesis examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of Hypothesis examples, and register the plugins in tests/support."""
    # The time of an example depends on the machine. CI tries the same examples each time, so that a failure
    # there is due to the change.
    hypothesis.settings.register_profile(
        "tests",
        max_examples=100 if config.getoption("all_on_envtest") else 25,
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("tests")
    config.pluginmanager.register(left_behind)
    config.pluginmanager.register(time_limit, time_limit.__name__)
    config.pluginmanager.register(EndsWithItsTests(control_plane.__name__))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Select the tests for each kind of control plane, mark integration tests, and sort all tests.

    A test that needs a control plane, directly or through another fixture, is an integration test.
    """
    everything = config.getoption("all_on_envtest")
    items[:] = [item for item in items if has_business_on(item, everything=everything)]
    for item in items:
        if KIND_PARAMETER in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.integration)
    yield
    # Plugins that shuffle have run before; they keep the tests of a file together.
    arrange(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection, and make garbage collection rare."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        tune_garbage_collector()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    """With `--dist loadfile`, run the tests of one file and one kind of control plane on one worker."""
    return UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return functions that create event loops, by loop name; the test runs once in each of these loops."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual time": VirtualLoop}
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.get_closest_marker("each_loop") is not None:
        factories["uvloop"] = uvloop.new_event_loop
    return factories


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of skipped tests for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = collections.Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped on the only kind of control plane that its marks select."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Lacking) and runs_nowhere_else(item):
        report.outcome = "failed"
        report.longrepr = f"{call.excinfo.value}: it runs nowhere unless it is marked `contract`"
    return report


def pytest_sessionstart() -> None:
    """Configure the fork server, and set asyncio's event loop to None.

    Otherwise asyncio creates a loop when pytest-asyncio asks for the loop before the first test. The warning
    about that open loop would fail an unrelated test.
    """
    asyncio.set_event_loop(None)
    fork_our_programs()


@pytest.fixture(scope="session")
def blocking_calls() -> BlockBuster:
    """Return a detector of blocking calls by our code, one for each worker because creating it is slow."""
    made = BlockBuster(
        [
            *(name for name in LIBRARY_PACKAGES if name != "devcluster"),
            *("controllers", "apis", "examples", "petstore"),
        ],
        excluded_modules=["manager_tools.simulation.loop"],  # the simulation's loop runs tests
    )
    locks = made.functions["threading.Lock.acquire"]
    # The factory reads its files at the first use of a type, as an import does.
    for name in ("io.BufferedReader.read", "os.scandir", "os.stat", "os.listdir"):
        if name in made.functions:
            made.functions[name].can_block_in("manager_kinds/factory.py", {"_table", "kinds_named"})
    # gRPC joins its thread when its last channel is garbage-collected, in any test.
    locks.can_block_in("threading.py", "join")
    locks.can_block_in("manager_tools/simulation/loop.py", "run_in_executor")
    return made


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest, blocking_calls: BlockBuster) -> Iterator[None]:
    """Fail a test in which our code makes a blocking call while an event loop runs."""
    if "integration" in request.keywords or "MUTANT_UNDER_TEST" in os.environ:
        yield  # mutmut and test infrastructure may block here; threads of the infrastructure do the work
        return
    blocking_calls.activate()
    try:
        yield
    finally:
        blocking_calls.deactivate()


@pytest.fixture(scope="session", params=KINDS, ids=lambda kind: kind.name)
def control_plane_kind(request: pytest.FixtureRequest) -> ControlPlaneKind:
    """Return the kind of control plane in the test's parameter; skip the test if the kind cannot run here."""
    kind: ControlPlaneKind = request.param
    problem = kind.why_not()
    if problem:
        pytest.skip(f"no {kind.name} control plane: {problem}")
    return kind


StartControlPlane = Callable[..., ControlPlane]
"""Function that starts a control plane with `parts` and flags of its kind, and CRDs if `crds` is true."""


@pytest.fixture(scope="session")
def control_plane(
    control_plane_kind: ControlPlaneKind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Yield a complete control plane that all tests of a worker share, so tests must remove their objects."""
    with control_plane_kind.create(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane) -> ControlPlane:
    """Return the shared control plane with the CRDs of all operators."""
    install_crds(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def storage(control_plane: ControlPlane) -> Iterator[None]:
    """Create storage classes on the shared control plane, one of them the default, for a module's tests."""
    with storage_classes(control_plane):
        yield


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Yield a namespace on the shared control plane for one test."""
    control_plane.check()
    name = new_namespace(control_plane)
    yield name
    # If the test has failed because it broke the server, do not report a second error.
    with contextlib.suppress(Exception):
        control_plane.api.delete(f"/api/v1/namespaces/{name}")


def _start_control_plane(
    control_plane_kind: ControlPlaneKind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartControlPlane]:
    """Yield a function that starts a control plane with options and stops it at the end of the fixture."""
    with contextlib.ExitStack() as stack:

        def start(*, crds: bool = False, **options: Sequence[str]) -> ControlPlane:
            folder = tmp_path_factory.mktemp("control-plane")
            plane = stack.enter_context(control_plane_kind.create(folder, **options))
            if crds:
                install_crds(plane)
            return plane

        yield start


own_control_plane = pytest.fixture(_start_control_plane)
module_control_plane = pytest.fixture(_start_control_plane, scope="module")


@pytest.fixture(scope="module")
def bare_control_plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Start an API server without controllers for one module, so that only managers write objects.

    A test that kills a process of the control plane must restart the process. Each test has its own
    namespaces. An earlier test may have installed the CRDs.
    """
    return module_control_plane(parts=BARE)


RunManager = Callable[..., ManagerProcess]
"""Function that starts a manager without waiting; arguments: kubeconfig, flags, ManagerProcess's options."""


@pytest.fixture
def run_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunManager]:
    """Yield a function that starts a manager as a process; the end of the test kills the processes."""
    with contextlib.ExitStack() as stack:

        def run(kubeconfig: Path, *flags: str, **options: Any) -> ManagerProcess:
            folder = tmp_path_factory.mktemp("manager")
            return stack.enter_context(ManagerProcess(kubeconfig, *flags, folder=folder, **options))

        yield run


@pytest.fixture
def fault_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], FaultProxy]]:
    """Yield a function that starts a fault proxy in front of an API server, with its own kubeconfig."""
    with contextlib.ExitStack() as stack:

        def start(kubeconfig: Path) -> FaultProxy:
            credentials, folder = Credentials.read(kubeconfig), tmp_path_factory.mktemp("proxy")
            return stack.enter_context(FaultProxy(credentials, folder=folder))

        yield start
