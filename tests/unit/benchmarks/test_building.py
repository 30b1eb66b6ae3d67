"""Peers are built when their sources have changed, and only then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers import LeftOutError, building


class Maker:
    """Counts how often it builds."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> None:
        self.times += 1
        (folder / "program").write_text("made")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(building, "BUILDS", tmp_path / "builds")
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "main.go").write_text("package main")
    return folder


def test_build_reuses_folder_of_unchanged_sources(sources: Path):
    make = Maker()
    folder = building.build("peer", sources, make, toolchain="go 1")
    assert building.build("peer", sources, make, toolchain="go 1") == folder
    assert make.times == 1
    assert (folder / "program").read_text() == "made"


def test_build_runs_again_when_a_source_or_the_toolchain_changes(sources: Path):
    make = Maker()
    building.build("peer", sources, make, toolchain="go 1")
    (sources / "main.go").write_text("package main // changed")
    building.build("peer", sources, make, toolchain="go 1")
    building.build("peer", sources, make, toolchain="go 2")
    (sources / "more.go").write_text("package main")
    building.build("peer", sources, make, toolchain="go 2")
    assert make.times == 4
    (sources / "__init__.py").write_text("what the suite knows of it is not built")
    building.build("peer", sources, make, toolchain="go 2")
    assert make.times == 4


def test_build_is_retried_after_a_failure(sources: Path):
    def fail(folder: Path) -> None:
        raise LeftOutError("no network")

    with pytest.raises(LeftOutError, match="no network"):
        building.build("peer", sources, fail, toolchain="go 1")
    make = Maker()
    building.build("peer", sources, make, toolchain="go 1")
    assert make.times == 1


def test_need_raises_left_out_error_for_missing_program():
    with pytest.raises(LeftOutError, match="no-such-compiler is not on the PATH"):
        building.need("no-such-compiler")


def test_run_raises_left_out_error_with_last_output_of_failed_build(tmp_path: Path):
    script = "import sys; print('line', file=sys.stderr); sys.exit('no such module')"
    with pytest.raises(LeftOutError, match="failed: line / no such module"):
        building.run([sys.executable, "-c", script], folder=tmp_path)
    assert building.run([sys.executable, "-c", "print(1)"], folder=tmp_path) == "1\n"
