from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from manager.cli import Operator, main
from manager.version import VERSION

OPERATORS = tuple(Operator(name, "tests.unit.cli.operator_module") for name in ("memcached", "foo", "pet"))


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

    def call(*argv: str, operators: Sequence[Operator] = OPERATORS) -> Outcome:
        code = main(argv, operators, name="operator-manager", version=VERSION)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
