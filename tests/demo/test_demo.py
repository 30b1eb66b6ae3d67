"""`make demo` as a person starts it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import IO

import pytest

from tests.support import ROOT

WITHIN = 180.0


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "demo", f"--folder={folder}", *flags]


def test_demo_ends_by_itself_when_everything_is_ready(tmp_path: Path):
    done = subprocess.run(
        command(tmp_path, "--once"), cwd=ROOT, capture_output=True, text=True, timeout=WITHIN, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memcached/memcached-sample: ready  Available=True" in done.stdout
    assert "event  memcached/memcached-sample: Created: " in done.stdout
    refusal = (
        'The Pet "pet-unborn" is invalid: spec.birthday: Invalid value: "2999-01-01": must not be in the'
    )
    assert f"! pet/pet-unborn: refused: {refusal} future" in done.stdout
    old, new = "v1alpha1 type dog 2015-06-30T00:00:00Z", "v1beta1 species dog 2015-06-30"
    assert f"pet/pet-old: converted: {old} -> {new}" in done.stdout
    assert "pet/pet-old: ready  Ready=True" in done.stdout
    assert "KUBECONFIG" not in done.stdout  # a stopped demo serves no commands
    assert done.stdout.rstrip().endswith("make demo: everything became ready.")
    assert done.stderr == ""


@pytest.mark.whole
def test_demo_runs_until_ctrl_c_and_refuses_a_second_demo(tmp_path: Path):
    process = subprocess.Popen(command(tmp_path), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = read_until(process.stdout, "logs ")
        assert f"export KUBECONFIG={tmp_path}/kubeconfig" in told
        health = re.search(r"health +(http://\S+)", told)
        assert health is not None
        with urllib.request.urlopen(health[1], timeout=5) as answer:
            assert answer.status == 200
        other = subprocess.run(command(tmp_path), cwd=ROOT, capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert f"another demo runs in {tmp_path}: process {process.pid}, since " in other.stdout
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=WITHIN)
        assert process.returncode == 0
        assert rest.rstrip().endswith("make demo: stopped.")
    finally:
        process.kill()


def read_until(stream: IO[str], wanted: str) -> str:
    """Return the lines up to the one that contains `wanted`."""
    deadline = time.monotonic() + WITHIN
    told = ""
    while wanted not in told:
        line = stream.readline()
        assert line, told
        assert time.monotonic() < deadline, told
        told += line
    return told
