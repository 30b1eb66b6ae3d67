from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from apis.cache.v1.memcached import Memcached
from manager import Context, Operator, Setting
from manager.cli import main
from manager.operator import AnyOperator
from manager.version import VERSION


class Plain(Operator[Memcached]):
    """An operator for tests of the command line."""

    set_up: ClassVar[list[str]] = []
    """The names of those that were set up."""

    def setup(self) -> None:
        self.set_up.append(self.name)

    async def reconcile(self, obj: Memcached, ctx: Context) -> None: ...


def operator(name: str, *settings: Setting[Any]) -> AnyOperator:
    """An operator of this name that declares these."""
    keys = {f"setting_{number}": setting for number, setting in enumerate(settings)}
    return type("Named", (Plain,), {"name": name, "kind": Memcached, **keys})


OPERATORS = tuple(map(operator, ("memcached", "foo", "pet")))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPERATOR_MANAGER_") or name in {*("WATCH_NAMESPACE", "KUBERNETES_SERVICE_HOST")}:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def garbage_collector() -> Iterator[None]:
    """Left as it was: `run` tunes it for the whole process."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs `operator-manager` in this process."""

    def call(*argv: str, operators: Sequence[AnyOperator] = OPERATORS) -> Outcome:
        code = main(argv, operators, name="operator-manager", version=VERSION)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
