"""kubectl prints with each control plane what it printed with the real one when that was recorded."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.differences import load_known
from tests.conformance.kubectl.programs import programs
from tests.conformance.kubectl.recorded import load_recorded
from tests.conformance.kubectl.scene import Scene, load_all
from tests.conformance.kubectl.stage import play, version_of
from tests.support.control_plane import Feature

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane

KNOWN = load_known()
MISSING = pytest.param(None, marks=pytest.mark.skip("no kubectl in the assets or on the PATH"), id="none")


@pytest.mark.parametrize("program", programs() or [MISSING], ids=version_of)
@pytest.mark.parametrize("scene", load_all(), ids=lambda each: each.name)
def test_scene(scene: Scene, program: Path, control_plane: ControlPlane, tmp_path: Path) -> None:
    control_plane.require(*(Feature[need] for need in scene.needs))
    version = version_of(program)
    expected = load_recorded(version, scene.name)
    if expected is None:
        pytest.skip(f"nothing recorded with kubectl {version}")
    actual = play(scene, control_plane, program, tmp_path / "scene")
    assert [each["kubectl"] for each in actual] == [each["kubectl"] for each in expected], "record it anew"
    found = [each for pair in zip(expected, actual, strict=True) for each in _differences(scene, *pair)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def _differences(scene: Scene, expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    """What differs in the outputs of one command, unless it is known to."""
    command = expected["kubectl"]
    for stream in ("stdout", "stderr", "exit"):
        left, right = expected.get(stream), actual.get(stream)
        known = any(each.covers(f"kubectl: {scene.name}", f"{command}: {stream}") for each in KNOWN)
        if left == right or known:
            continue
        yield f"\nkubectl {command}\n{stream}:"
        yield from list(difflib.unified_diff(_lines(left), _lines(right), "real", "this", lineterm=""))[2:]


def _lines(value: list[str] | int | None) -> list[str]:
    return value if isinstance(value, list) else [str(value or "")]
