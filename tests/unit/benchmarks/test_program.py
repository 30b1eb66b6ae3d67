"""Start of a program under measurement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import PEERS
from benchmarks.peers.interpreter import build_of
from benchmarks.peers.ours import manager, on_python
from benchmarks.program import Election, Program, Setting, by_contract
from tests.support import ROOT

FILE = Path("/tmp/kubeconfig")


def test_placeholders_are_filled_from_the_setting():
    program = Program.parse("mine=/bin/mine --file={kubeconfig} -n {concurrency} --probe={health} {workload}")
    setting = Setting(workload="ten", concurrency=3, health_address="127.0.0.1:9")
    assert program.arguments(FILE, setting) == [
        *("/bin/mine", "--file=/tmp/kubeconfig", "-n", "3", "--probe=127.0.0.1:9", "ten")
    ]


def test_daemon_runs_on_processors_named_by_bench_program_cpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("BENCH_PROGRAM_CPUS", str(min(os.sched_getaffinity(0))))
    script = "import os; print(len(os.sched_getaffinity(0)), '{metrics}')"
    program = Program("mine", [sys.executable, "-c", script])
    daemon = program.daemon(FILE, tmp_path, Setting(metrics_address="127.0.0.1:8"))
    daemon.start()
    daemon.wait(30)
    assert daemon.output() == "1 127.0.0.1:8\n"


def test_daemon_starts_without_pythonpath(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    script = "import os; print(os.environ.get('PYTHONPATH'))"
    daemon = Program("before", [sys.executable, "-c", script]).daemon(FILE, tmp_path)
    daemon.start()
    daemon.wait(30)
    assert daemon.output() == "None\n"


@pytest.mark.parametrize(("head", "is_python"), [("#!/opt/bin/python3.13", True), ("#!/bin/sh", False)])
def test_program_tells_python_by_the_first_line(tmp_path: Path, head: str, *, is_python: bool):
    script = tmp_path / "operator"
    script.write_text(f"{head}\n")
    script.chmod(0o755)
    assert Program("mine", [str(script)]).is_python is is_python
    assert Program("mine", [sys.executable]).is_python
    assert not Program("mine", [str(tmp_path / "absent")]).is_python


def test_flags_of_a_setting_come_last():
    program = Program.parse("mine=/bin/mine {kubeconfig}")
    setting = Setting(flags=("--image=other",), election=Election("lease"))
    assert program.arguments(FILE, setting)[-2:] == ["--leader-election-namespace=default", "--image=other"]


def test_by_contract_program_gets_the_flags_of_all_peers():
    program = by_contract("peer", "/bin/peer", "--read-your-writes")
    election = Election("lease", "team")
    assert program.arguments(FILE, Setting(election=election)) == [
        *("/bin/peer", "--read-your-writes", "--kubeconfig=/tmp/kubeconfig", "--concurrency=8"),
        *("--health-probe-bind-address=0", "--workload=memcached"),
        *("--leader-elect", "--leader-election-id=lease", "--leader-election-namespace=team"),
    ]


def test_manager_arguments_use_real_manager_or_peer_module_by_workload():
    assert manager().arguments(FILE, Setting())[0].endswith("/operator-manager")
    assert "benchmarks.peers.ours" in manager().arguments(FILE, Setting(workload="pods"))


@pytest.mark.parametrize(
    ("command", "tells"), [("mine={kubeconfig}", False), ("mine={kubeconfig} --probe={health}", True)]
)
def test_readiness_is_asked_of_programs_that_can_be_told_where(command: str, tells: bool):
    assert Program.parse(command).tells_readiness is tells


def test_names_of_peers_are_fit_for_a_list_and_are_one_of_a_kind():
    names = [peer.name for peer in PEERS]
    assert len(names) == len(set(names))
    assert all(name == name.lower() and not set(name) & set(", =") for name in names)


def test_by_contract_program_keeps_its_own_concurrency():
    program = by_contract("peer", "/bin/peer", concurrency=1)
    assert "--concurrency=1" in program.arguments(FILE, Setting(concurrency=8))


def test_suite_lets_programs_keep_their_bytecode_whatever_the_environment_says():
    script = "import os, benchmarks; print(os.environ.get('PYTHONDONTWRITEBYTECODE'))"
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


@pytest.mark.parametrize(
    ("configured", "optimisation"),
    [
        ("'--enable-optimizations' '--with-lto' '--enable-shared'", "with PGO and LTO"),
        ("'--enable-optimizations'", "with PGO"),
        ("'--enable-shared' '--with-wheel-pkg-dir=/usr/share/python-wheels/'", "with PGO and LTO"),
        ("'--prefix=/root/.pyenv'", "without PGO and LTO"),
        ("None", "without PGO and LTO"),
    ],
)
def test_results_name_the_optimisation_of_an_interpreter(configured: str, optimisation: str, tmp_path: Path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" 3.99.1 "{configured}"\n')
    python.chmod(0o755)
    assert build_of(python) == f"Python 3.99.1 {optimisation}"


def test_interpreter_of_a_version_that_is_missing_is_refused():
    with pytest.raises(ValueError, match=r"Python 3\.2 is not on the PATH"):
        on_python("3.2")
