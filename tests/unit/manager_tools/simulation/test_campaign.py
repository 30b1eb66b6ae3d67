"""Output, exit codes and interruption of the command `simulate`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from controllers.main import OPERATORS
from manager import Context
from manager.cli.commands import HELP_FLAGS, Invocation
from manager.operator import AnyOperator
from manager.util.program import Program
from manager_tools.commands import simulate as command
from manager_tools.simulation import campaign
from manager_tools.simulation.campaign import fault_page
from manager_tools.simulation.plan import KINDS_OF_FAULT, Fault, Plan, Step, plan_of
from manager_tools.simulation.seeds import run
from tests.support import ROOT
from tests.unit.manager_tools.simulation.test_guards import operator_that, reads_the_clock
from tests.unit.manager_tools.simulation.test_seeds import (
    ForgetfulOperator,
    Greeting,
    GreetingOperator,
    PickyOperator,
    failed_run,
)


def simulate(arguments: list[str], operators: list[AnyOperator]) -> int:
    invocation = Invocation(Program("mine", "1"), operators)
    # click remembers the flags of a command's first call.
    return command.simulate.main(
        arguments, "simulate", standalone_mode=False, obj=invocation, help_option_names=HELP_FLAGS
    )


@pytest.fixture(autouse=True)
def empty_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class InterruptingOperator(GreetingOperator):
    """Operator that sends SIGINT to the main process in each reconcile, even from a worker process."""

    program = os.getpid()

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        await super().reconcile(greeting, ctx)
        os.kill(self.program, signal.SIGINT)


class EndingOperator(ForgetfulOperator):
    """Faulty operator that sends SIGTERM to the program in each reconcile."""

    reconciles = 0

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        EndingOperator.reconciles += 1
        os.kill(os.getpid(), signal.SIGTERM)
        await super().reconcile(greeting, ctx)


def test_simulate_error_names_the_file_and_line_of_an_invalid_yaml_sample(tmp_path: Path):
    samples = tmp_path / "config/samples"
    samples.mkdir(parents=True)
    (samples / "broken.yaml").write_text("a: {")
    told = r"^config/samples/broken\.yaml: not valid YAML in line 2, column 1: "
    with pytest.raises(click.UsageError, match=told):
        simulate(["--seeds=1"], [GreetingOperator])


def test_simulate_prints_progress_and_the_next_seed_when_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(campaign, "_TOLD_EVERY", 0.0)
    arguments = ["--seeds=50", "--seed=7", "--minutes=1", "--jobs=1"]
    assert simulate(arguments, [InterruptingOperator]) == 130
    progress, _, end, further = capsys.readouterr().out.splitlines()
    assert progress.startswith("1 of 50 runs passed, ")
    assert end.startswith("interrupted: 1 of 50 runs passed: ")
    assert further == "to continue: --seed 8"


class InterruptingForgetfulOperator(ForgetfulOperator):
    """Faulty operator that sends SIGINT to the main process in each reconcile."""

    kind = Greeting
    name = "greeting"

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        await super().reconcile(greeting, ctx)
        os.kill(os.getpid(), signal.SIGINT)


def test_simulate_continues_after_a_failed_seed_when_flag_keep_going_is_interrupted(
    capsys: pytest.CaptureFixture[str],
):
    seed = failed_run().plan.seed
    arguments = [f"--seed={seed}", "--seeds=9", "--minutes=2", "--jobs=1", "--keep-going"]
    assert simulate(arguments, [InterruptingForgetfulOperator]) == 130
    assert capsys.readouterr().out.splitlines()[-1] == f"to continue: --seed {seed + 1}"


@pytest.mark.parametrize("flag", ["--matrix=faults.md", "--replay=plan.json"])
def test_simulate_names_no_next_seed_when_a_matrix_or_replay_is_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
):
    (tmp_path / "plan.json").write_text(plan_of(3, (InterruptingOperator,), minutes=1).to_json())
    assert simulate([flag, "--minutes=1", "--jobs=1"], [InterruptingOperator]) == 130
    told = capsys.readouterr().out
    assert "interrupted: 1 of " in told
    assert "--seed" not in told


@pytest.mark.parametrize("flags", [[], ["--keep-going"]])
def test_simulate_reports_the_failure_when_its_plan_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(campaign, "shrunk", lambda outcome, *_, **__: outcome)
    failed = failed_run()
    (tmp_path / f"simulation-{failed.plan.seed}.json").mkdir()
    arguments = [f"--seed={failed.plan.seed}", "--minutes=2", *flags]
    with pytest.raises(click.UsageError, match=rf"^simulation-{failed.plan.seed}\.json: Is a directory$"):
        simulate(arguments, [ForgetfulOperator])
    assert failed.violations[0].what in capsys.readouterr().out


@pytest.mark.long
def test_simulate_ends_all_worker_processes_when_the_main_process_is_interrupted():
    program = (
        "from tests.unit.manager_tools.simulation.test_campaign import *\n"
        "arguments = ['--seeds=50', '--minutes=1', '--jobs=2']\n"
        "sys.exit(simulate(arguments, [InterruptingOperator]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert "interrupted: " in done.stdout
    assert "to continue: --seed " in done.stdout
    assert not done.stderr


def test_simulate_reports_the_failure_when_it_is_interrupted_while_shrinking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan = failed_run().plan
    arguments = [f"--seed={plan.seed}", "--seeds=9", "--minutes=2", "--jobs=1"]
    EndingOperator.reconciles = 0
    assert simulate(arguments, [EndingOperator]) == 1
    told = capsys.readouterr().out
    assert "reducing the plan ...\ninterrupted: the plan could be smaller\n" in told
    assert "what did not hold:" in told
    kept = tmp_path / f"simulation-{plan.seed}.json"
    assert Plan.from_json(kept.read_bytes(), kinds=1) == plan
    once, EndingOperator.reconciles = EndingOperator.reconciles, 0
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        run(plan, (EndingOperator,))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert EndingOperator.reconciles == once


@pytest.mark.whole
def test_simulate_with_flag_keep_going_runs_all_seeds_and_saves_each_failure_for_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = ["--seeds=12", "--minutes=2", "--jobs=1", "--keep-going"]
    assert simulate(arguments, [ForgetfulOperator]) == 1
    *lines, summary, count = capsys.readouterr().out.splitlines()
    failures = [line for line in lines if line.startswith("seed ")]
    kept = sorted(tmp_path.glob("simulation-*.json"))
    assert len(failures) == len(kept) > 1
    assert summary.startswith(f"{12 - len(kept)} runs passed: ")
    assert count == f"{len(kept)} runs failed"
    [named] = [each for each in failures if each.endswith(f"; see {kept[0].name}")]
    assert simulate([f"--replay={kept[0]}"], [ForgetfulOperator]) == 1
    assert named.partition(": ")[2].partition("; see")[0] in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--seed=0"], ["--matrix=faults.md", "--jobs=1"]])
def test_simulate_error_names_the_file_of_a_nondeterministic_operator(
    capsys: pytest.CaptureFixture[str], flags: list[str]
):
    with pytest.raises(click.ClickException, match=r"^.*test_guards\.py.*$"):
        simulate([*flags, "--minutes=1"], [operator_that(reads_the_clock)])
    assert not capsys.readouterr().out


def test_simulate_fails_when_the_server_accepts_no_random_object(capsys: pytest.CaptureFixture[str]):
    assert simulate(["--seeds=1", "--minutes=1"], [PickyOperator]) == 1
    assert "took none of the objects made up for Picky: put a valid one" in capsys.readouterr().err


def test_simulate_refuses_an_unwritable_matrix_file_before_the_first_run(tmp_path: Path):
    page = tmp_path / "missing" / "faults.md"
    with pytest.raises(click.UsageError, match=f"--matrix {page}: No such file or directory"):
        simulate([f"--matrix={page}"], [EndingOperator])


def test_fault_page_row_counts_the_objects_that_are_missing_compared_with_a_fresh_install():
    operator, steps = (ForgetfulOperator,), plan_of(0, (ForgetfulOperator,)).steps[:1]
    steps = (*steps, Step(at=60.0, act="delete child", kind=0, draw=1))
    fault = Fault(at=90.0, what="cut", replica=0, seconds=1.0)
    outcome = run(Plan(0, 1, steps, (fault,)), operator)
    assert (outcome.lost, outcome.doubled) == (1, 0)
    page = fault_page([("greeting", outcome)], command="", minutes=5)
    [row] = [line for line in page.splitlines() if "`cut`" in line]
    assert row.endswith("| 0 of 1, 0 s | 1 | 0 |")


def test_faults_page_of_the_documentation_lists_each_fault_and_each_operator():
    told = (ROOT / "docs" / "faults.md").read_text()
    rows = [line.split(" | ") for line in told.splitlines() if line.startswith("| ")]
    assert [row[0].strip("| `") for row in rows[2:]] == list(KINDS_OF_FAULT), "generate it anew, as it says"
    assert rows[0][2:-2] == [each.name for each in OPERATORS]
