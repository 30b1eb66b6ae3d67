"""What `simulate` says meanwhile, and when it does not come to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manager import Context
from manager.cli import simulate as command
from manager.cli.simulate import simulate
from manager.program import Program
from tests.unit.simulation.test_seeds import Greeting, GreetingOperator

ROOT = Path(__file__).parents[3]
THIS = "tests.unit.simulation.test_command"


class InterruptingOperator(GreetingOperator):
    """While it works, somebody ends the program."""

    kind = Greeting
    name = "greeting"
    program = os.getpid()

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        await super().reconcile(greeting, ctx)
        os.kill(self.program, signal.SIGINT)


class ClockReadingOperator(GreetingOperator):
    """Its runs differ from each other."""

    kind = Greeting
    name = "greeting"

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        greeting.status.text = str(time.time())


def test_it_says_how_far_it_is_and_when_interrupted_what_it_has_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_TOLD_EVERY", 0.0)
    arguments = ["--seeds=50", "--seed=7", "--minutes=1", "--jobs=1"]
    assert simulate(arguments, [InterruptingOperator], Program("mine", "1")) == 130
    progress, _, end, further = capsys.readouterr().out.splitlines()
    assert progress.startswith("1 of 50 runs hold, ")
    assert end.startswith("interrupted: 1 of 50 runs hold: ")
    assert further == "to go on: --seed 8"


def test_several_processes_end_with_the_one_that_is_interrupted():
    program = (
        f"from manager.program import Program\nfrom {THIS} import *\n"
        "arguments = ['--seeds=50', '--minutes=1', '--jobs=2']\n"
        "sys.exit(simulate(arguments, [InterruptingOperator], Program('mine', '1')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 130
    assert "interrupted: " in done.stdout
    assert "to go on: --seed " in done.stdout
    assert not done.stderr


def test_what_differs_from_run_to_run_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert simulate(["--seed=0", "--minutes=1"], [ClockReadingOperator], Program("mine", "1")) == 1
    told, problem = capsys.readouterr()
    assert not told
    assert "test_command.py" in problem
    assert problem.startswith("mine: simulate: ")
    assert problem.count("\n") == 1
