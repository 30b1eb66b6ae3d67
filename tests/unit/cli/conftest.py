from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest
from yarl import URL

from apis.cache.v1.memcached import Memcached
from manager import Context, Operator, Setting
from manager.cli import assembly, main
from manager.cli.settings import Settings
from manager.operator import AnyOperator
from manager.settings import SettingValues
from manager.telemetry.watchdog import Watchdog
from manager.util.program import Program
from manager.util.version import VERSION
from tests.support.scripted_wire import Reply, ScriptedWire

VERSION_ANSWER = Reply.json({"gitVersion": "v1.36.3"})


class Plain(Operator[Memcached]):
    """Operator that reconciles nothing."""

    set_up: ClassVar[list[str]] = []
    """Names of the operators that were set up."""

    def setup(self) -> None:
        self.set_up.append(self.name)

    async def reconcile(self, obj: Memcached, ctx: Context) -> None: ...


def operator(name: str, *settings: Setting[Any]) -> AnyOperator:
    """Return an operator of this name that declares these settings."""
    keys = {f"setting_{number}": setting for number, setting in enumerate(settings)}
    return type("Named", (Plain,), {"name": name, "kind": Memcached, **keys})


OPERATORS = tuple(map(operator, ("memcached", "foo", "pet")))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def refusal(self, code: int = 2) -> str:
        """Assert the exit code; return the only line of stderr without the program's name."""
        assert (self.code, self.out) == (code, "")
        name, _, told = self.err.partition(": ")
        assert (name, told.count("\n")) == ("operator-manager", 1)
        return told.removesuffix("\n")


Command = Callable[..., Outcome]
WriteFile = Callable[[str], str]
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPERATOR_MANAGER_") or name in {
            *("WATCH_NAMESPACE", "ENABLE_WEBHOOKS", "KUBERNETES_SERVICE_HOST")
        }:
            monkeypatch.delenv(name)


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    """Return a function that writes a settings file and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "settings.yaml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def install_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Yield a function that installs a package of version 1.2 with one module and one entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def put(
        module: str, source: str, entry_point: str, *, group: str, package: str = "hello-operators"
    ) -> None:
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        folder = tmp_path / f"{package.replace('-', '_')}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[{group}]\n{entry_point}\n")
        importlib.invalidate_caches()

    yield put
    for each in modules:
        sys.modules.pop(each, None)


@pytest.fixture(autouse=True)
def garbage_collector_as_it_was(gc_thresholds: None) -> None:
    """Restore the garbage collector's thresholds, which the command `run` changes."""


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs an `operator-manager` command in the test's process."""

    def call(*argv: str, operators: Sequence[AnyOperator] = OPERATORS) -> Outcome:
        code = main(argv, operators, name="operator-manager", version=VERSION)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


class Asked(NamedTuple):
    """Recorded arguments with which `run` has assembled a manager."""

    settings: Settings
    operators: list[str]
    values: SettingValues


Assemble = Callable[..., list[Asked]]


async def end(stop: asyncio.Event) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def assemble(monkeypatch: pytest.MonkeyPatch) -> Assemble:
    """Return a function that replaces the manager by a fake and records how it is assembled."""

    def use(run: Callable[[asyncio.Event], Any] = end) -> list[Asked]:
        asked: list[Asked] = []

        @asynccontextmanager
        async def assembled(
            program: Program,
            settings: Settings,
            operators: Sequence[AnyOperator],
            declared: SettingValues,
            known: Sequence[AnyOperator],
            watchdog: Watchdog,
        ) -> AsyncIterator[SimpleNamespace]:
            assert {operator.name for operator in operators} <= {operator.name for operator in known}
            assert watchdog.due() is None
            asked.append(Asked(settings, [operator.name for operator in operators], declared))
            yield SimpleNamespace(run=run)

        monkeypatch.setattr("manager.cli.run.assembled", assembled)
        return asked

    return use


class Config:
    """Client configuration for the API server https://api.example.com."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.server = URL("https://api.example.com")
        self.namespace = self.tls = None


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> ScriptedWire:
    """Connect managers to a scripted server that reports only its version; disable metrics and health."""
    wire = ScriptedWire()
    wire.on("GET", "/version", VERSION_ANSWER)

    async def load_config(**_: object) -> Config:
        return Config("kubeconfig k")

    for served in ("METRICS", "HEALTH_PROBE"):
        monkeypatch.setenv(f"OPERATOR_MANAGER_{served}_BIND_ADDRESS", "0")
    monkeypatch.setattr(assembly, "load_config", load_config)
    monkeypatch.setattr(assembly, "HttpWire", lambda *_, **__: wire)
    return wire
