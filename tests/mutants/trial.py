"""Runs the tests on mutants; each mutant has its own process, forked after imports and collection."""

from __future__ import annotations

import ast
import bisect
import contextlib
import gc
import importlib
import inspect
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

import pytest

from tests.mutants.places import Mutant
from tests.support.fork_server import end_with

FLAGS = (
    *("-q", "-s", "--no-header", "--no-summary", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("--timeout=0", "--continue-on-collection-errors"),
    *("-m", "not whole and not long and not integration"),
)
MEMORY = 4 << 30
SLACK = 3.0
"""CPU seconds that a test may take in addition to ten times its cost on the unchanged code."""
WAIT = 60.0
"""Wall seconds in addition to thirty times the cost, because the machine may be busy."""
COLLECTING = 120.0
TOUCHED = "__touched__"


class Cost(NamedTuple):
    """Cost of a test on the unchanged code: CPU seconds, wall seconds, and the functions that ran."""

    cpu: float
    wall: float
    functions: frozenset[str]


@dataclass
class Verdict:
    """Result of a mutant: killed, timeout, survived or untried; `by` is the test that found it, or import."""

    outcome: str = "untried"
    by: str = ""


Live = dict[tuple[str, str, int], list[FunctionType]]
"""Functions by file, name and line."""
Swap = list[tuple[FunctionType, CodeType]]


class Job(NamedTuple):
    work: Callable[[Path], None]
    ended: Callable[[Path, int], None]


@dataclass(eq=False)  # a plugin of pytest has to be hashable
class Trials:
    """Pytest plugin that tests every mutant instead of running the tests once.

    `tiers` are files or folders of tests, and each mutant that survives one tier is tested by the next. A
    tier runs only the fastest tests of a mutant: at least one, and as many as fit into `at_most` CPU seconds.
    """

    code: Sequence[Path]
    mutants: Sequence[Mutant]
    tiers: Sequence[Sequence[str]]
    workers: int
    at_most: float
    tell: Callable[[Mutant, Verdict], None]
    verdicts: dict[Mutant, Verdict] = field(default_factory=dict)
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _live: Live = field(default_factory=dict)
    _costs: dict[str, Cost] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._live = _live_functions(self.code)
        left = {item.nodeid: item for item in session.items}
        for tier in self.tiers:
            folders = [session.startpath / name for name in tier]
            within = [
                item for item in left.values() if any(item.path.is_relative_to(path) for path in folders)
            ]
            mutants = [
                each for each in self.mutants if self._verdict(each).outcome in {"untried", "survived"}
            ]
            if not mutants or not within:
                continue
            left = {name: item for name, item in left.items() if item not in within}
            self._items = {item.nodeid: item for item in within}
            self._record(within)
            _run((self._job(mutant) for mutant in mutants), self.workers)
        return True

    def _verdict(self, mutant: Mutant) -> Verdict:
        return self.verdicts.setdefault(mutant, Verdict())

    def _record(self, items: list[pytest.Item]) -> None:
        begun = time.monotonic()
        touched: set[str] = set()
        swap = [pair for path in _files(self.code) for pair in self._watched(path, touched)]
        self._costs = {}
        parts = [items[start :: self.workers] for start in range(min(self.workers, len(items)))]

        def job(part: list[pytest.Item]) -> Job:
            return Job(lambda folder: _recorded(part, swap, touched, folder), ended)

        def ended(folder: Path, status: int) -> None:
            if status:
                raise RuntimeError(f"on the code as it is: {status}: {(folder / 'log').read_text()}")
            for name, (cpu, wall, functions) in json.loads((folder / "costs").read_text()).items():
                self._costs[name] = Cost(cpu, wall, frozenset(functions))

        _run([job(part) for part in parts], self.workers)
        print(
            f"mutants: {len(items)} tests on the code as it is: {time.monotonic() - begun:.0f} s;"
            f" left out, as they fail or skip: {len(items) - len(self._costs)}",
            flush=True,
        )

    def _watched(self, path: Path, touched: set[str]) -> Swap:
        """Return a file's functions, each with new code that first adds the function's name to `touched`."""
        tree = ast.parse(path.read_bytes())
        for name, node in _outermost(tree):
            watch = ast.parse(f"{TOUCHED}.add({f'{path} {name}'!r})").body[0]
            for each in ast.walk(watch):
                ast.copy_location(each, node.body[0])
            node.body.insert(0, watch)
        swap = self._swap(path, compile(tree, str(path.resolve()), "exec", dont_inherit=True))
        for function, _ in swap:
            function.__globals__[TOUCHED] = touched
        return swap

    def _swap(self, path: Path, code: CodeType) -> Swap:
        """Return each function that the changed file (compiled as `code`) changes, with its new code."""
        name = str(path.resolve())
        before = compile(path.read_bytes(), name, "exec", dont_inherit=True)
        return [
            (function, new)
            for old, new in zip(_functions(before), _functions(code), strict=True)
            if old != new
            for function in self._live.get((name, old.co_qualname, old.co_firstlineno), ())
        ]

    def _job(self, mutant: Mutant) -> Job:
        verdict = self._verdict(mutant)
        path = Path(mutant.file)
        place = f"{path} {mutant.function}"
        swap: Swap = []
        names = []
        if mutant.function:
            swap = self._swap(path, compile(mutant.applied(), str(path.resolve()), "exec", dont_inherit=True))
            names = [name for name, cost in self._costs.items() if place in cost.functions]
        as_before = bool(swap and names) and all(
            len(function.__code__.co_freevars) == len(code.co_freevars) for function, code in swap
        )
        if not as_before:  # it ran at the import of its module, which must be imported again
            names = [name for name, cost in self._costs.items() if self._is_near(name, cost, path)]
        names.sort(key=lambda name: self._costs[name].cpu * (1 if _is_own(name, path) else 4))
        spent = list(itertools.accumulate(self._costs[name].cpu for name in names))
        names = names[: max(1, bisect.bisect(spent, self.at_most))]

        def work(folder: Path) -> None:
            if not names:
                os._exit(0)
            if as_before:
                for function, code in swap:
                    function.__code__ = code
                _try([self._items[name] for name in names], self._costs, folder)
            _limit(COLLECTING, COLLECTING * 10)
            (folder / "trial").write_text(
                json.dumps(
                    [mutant.file, mutant.applied().decode(), {name: self._costs[name] for name in names}],
                    default=list,
                )
            )
            os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.trial", str(folder)])

        def ended(folder: Path, status: int) -> None:
            by = folder / "by"
            verdict.by = by.read_text() if by.exists() else "import"
            if status in {-signal.SIGPROF, -signal.SIGALRM}:
                verdict.outcome = "timeout"
            elif status == 0:
                verdict.outcome, verdict.by = "survived", ""
            elif status == 1 or by.exists():
                verdict.outcome = "killed"
            else:
                raise RuntimeError(f"{mutant.key}: {status}: {(folder / 'log').read_text()}")
            self.tell(mutant, verdict)

        return Job(work, ended)

    def _is_near(self, name: str, cost: Cost, path: Path) -> bool:
        return _is_own(name, path) or any(function.startswith(f"{path} ") for function in cost.functions)


class Anew:
    """Pytest plugin that runs only the tests in `costs`, in the order of `costs`."""

    def __init__(self, costs: dict[str, Cost], folder: Path) -> None:
        self._costs = costs
        self._folder = folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        if not self._costs.keys() <= items.keys():
            os._exit(1)
        _try([items[name] for name in self._costs], self._costs, self._folder)


class _Reports:
    """Iterator that runs tests; `results` has the outcomes of the last test's phases."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self._items = items
        self.results: list[str] = []
        items[0].config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.results.append(report.outcome)

    def __iter__(self) -> Iterator[pytest.Item]:
        for item, following in zip(self._items, [*self._items[1:], None], strict=True):
            self.results.clear()
            self.before(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item

    def before(self, item: pytest.Item) -> None:
        """Do nothing; the caller may replace this method by one that prepares a test."""


def _recorded(items: list[pytest.Item], swap: Swap, touched: set[str], folder: Path) -> None:
    for function, code in swap:
        function.__code__ = code
    costs: dict[str, Any] = {}
    cpu, wall = time.process_time(), time.monotonic()
    reports = _Reports(items)
    for item in reports:
        now = time.process_time(), time.monotonic()
        if set(reports.results) == {"passed"}:
            costs[item.nodeid] = [now[0] - cpu, now[1] - wall, list(touched)]
        cpu, wall = now
        touched.clear()
    (folder / "costs").write_text(json.dumps(costs))


def _try(items: list[pytest.Item], costs: dict[str, Cost], folder: Path) -> NoReturn:
    by = folder / "by"

    def before(item: pytest.Item) -> None:
        by.write_text(item.nodeid)
        cpu, wall, _ = costs[item.nodeid]
        _limit(SLACK + 10 * cpu, WAIT + 30 * wall)

    reports = _Reports(items)
    reports.before = before  # type: ignore[method-assign]
    for _ in reports:
        if "failed" in reports.results:
            os._exit(1)
    os._exit(0)


def _limit(cpu: float, wall: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wall)


def _run(jobs: Iterable[Job], workers: int) -> None:
    running: dict[int, tuple[Job, Path]] = {}
    waiting = deque(jobs)
    parent = os.getpid()
    try:
        while waiting or running:
            if waiting and len(running) < workers:
                job, folder = waiting.popleft(), Path(tempfile.mkdtemp(prefix="mutant-"))
                pid = os.fork()
                if pid == 0:
                    _become(job, folder, parent)
                running[pid] = job, folder
                continue
            pid, status = os.wait()
            if pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # with all processes that its tests have started
                job, folder = running.pop(pid)
                job.ended(folder, os.waitstatus_to_exitcode(status))
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        for pid, (_, folder) in running.items():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            shutil.rmtree(folder, ignore_errors=True)


def _become(job: Job, folder: Path, parent: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        end_with(parent)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        job.work(folder)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the forked process must not continue
        traceback.print_exc()
        os._exit(3)


def _files(code: Iterable[Path]) -> list[Path]:
    return sorted({file for path in code for file in (path.rglob("*.py") if path.is_dir() else [path])})


def _is_own(test: str, path: Path) -> bool:
    return f"/{path.parent.name}/" in test.partition("::")[0]


def _functions(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_OPTIMIZED:
                yield each
            else:
                yield from _functions(each)


def _outermost(
    node: ast.AST, scope: tuple[str, ...] = ()
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join([*scope, child.name]), child
        else:
            yield from _outermost(child, (*scope, child.name) if isinstance(child, ast.ClassDef) else scope)


def _live_functions(code: Iterable[Path]) -> Live:
    """Return all existing function objects of these files, including those hidden by gc.freeze."""
    files = {str(path.resolve()) for path in _files(code)}
    live: Live = {}
    for each in _all_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            key = each.__code__.co_filename, each.__code__.co_qualname, each.__code__.co_firstlineno
            live.setdefault(key, []).append(each)
    return live


def _all_objects() -> list[Any]:
    gc.unfreeze()
    try:
        return gc.get_objects()
    finally:
        gc.freeze()


def anew(folder: Path) -> int:
    """Test a mutant in this new process, because the changed code runs at import; return the exit code."""
    file, source, costs = json.loads((folder / "trial").read_text())
    path, get_code = Path(file).resolve(), SourceFileLoader.get_code

    def changed(loader: SourceFileLoader, name: str) -> CodeType | None:
        if Path(loader.path).absolute() == path:
            return compile(source, path, "exec", dont_inherit=True)
        return get_code(loader, name)

    SourceFileLoader.get_code = changed  # type: ignore[method-assign]
    try:
        importlib.import_module(".".join(Path(file).with_suffix("").parts).removesuffix(".__init__"))
    except Exception:  # noqa: BLE001 - no test could import it either
        return 1
    plugin = Anew({name: Cost(*cost) for name, cost in costs.items()}, folder)
    files = dict.fromkeys(name.partition("::")[0] for name in costs)
    ended = pytest.main([*files, *FLAGS], plugins=[plugin])
    # A module that conftest.py needs could not be imported with the change.
    return 1 if ended == pytest.ExitCode.USAGE_ERROR else 2


if __name__ == "__main__":
    sys.exit(anew(Path(sys.argv[1])))
