"""Output of `python -m benchmarks.live`."""

from __future__ import annotations

import pytest

from benchmarks.live import main

pytestmark = pytest.mark.usefixtures("gc_thresholds")


def test_live_benchmark_prints_rows_for_new_objects_and_for_changes(capsys: pytest.CaptureFixture[str]):
    assert main(["--rounds=1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["new-object", "change"]
