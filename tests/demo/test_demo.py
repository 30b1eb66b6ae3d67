"""`make demo`, started as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

WITHIN = 180.0


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "demo", f"--folder={folder}", *flags]


def test_demo_exits_when_every_object_is_ready(tmp_path: Path):
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
