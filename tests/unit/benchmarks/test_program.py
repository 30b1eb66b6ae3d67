"""Start of a program under measurement."""

from __future__ import annotations

from pathlib import Path

from benchmarks.program import Program, Setting

FILE = Path("/tmp/kubeconfig")


def test_placeholders_are_filled_from_the_setting():
    program = Program.parse("mine=/bin/mine --file={kubeconfig} -n {concurrency} --probe={health} {workload}")
    setting = Setting(workload="ten", concurrency=3, health_address="127.0.0.1:9")
    assert program.arguments(FILE, setting) == [
        *("/bin/mine", "--file=/tmp/kubeconfig", "-n", "3", "--probe=127.0.0.1:9", "ten")
    ]
