"""`python -m benchmarks.live`."""

from __future__ import annotations

import pytest

from benchmarks.live import main

pytestmark = pytest.mark.usefixtures("gc_thresholds")


def test_live_benchmark_measures_a_new_object_and_a_change(capsys: pytest.CaptureFixture[str]):
    assert main(["--rounds=1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["new-object", "change"]
