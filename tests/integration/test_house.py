"""scripts/house: sizes, and the path of a change through a real manager."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support import ROOT


def house(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "house"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "not a git repository" in done.stderr or "unknown revision" in done.stderr:
        pytest.skip("no git, or not a checkout with its history")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.whole
@pytest.mark.timeout(180)
def test_house_counts_the_files_and_functions_of_a_change():
    printed = house("--files")
    counts = dict(re.findall(r"^from (.+): (\d+) files, \d+ functions$", printed, re.MULTILINE))
    assert counts.keys() == {"main() to Manager.run", "a watch event to the write of the status"}
    assert int(counts["a watch event to the write of the status"]) <= 35
    path = printed.partition("write of the status")[2]
    for passed in ("cache/", "client/", "controller/", "operator/"):
        assert f"\n  {passed}" in path
    last = "manager/process/manager.py"
    chain = re.search(rf"^main\(\) calls Manager.run through (\d+) files: .*, {last}$", printed, re.MULTILINE)
    assert chain is not None
    assert int(chain[1]) <= 10
    hops = re.search(r"to the socket: (\d+) hops, Context, ", printed)
    assert hops is not None
    assert 1 < int(hops[1]) <= 5
