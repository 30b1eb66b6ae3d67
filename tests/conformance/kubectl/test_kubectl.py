"""kubectl prints with each control plane what it printed with the real one when that was recorded."""

from __future__ import annotations

import difflib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.differences import load_known
from tests.conformance.kubectl.programs import programs
from tests.conformance.kubectl.recorded import load_recorded
from tests.conformance.kubectl.scene import Scene, load_all
from tests.conformance.kubectl.stage import play, version_of
from tests.support.control_plane import Feature
from tests.support.devcluster_plane import DevclusterControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract

Play = tuple[Scene, "Path"]
Playing = dict[tuple[str, str], Future[list[dict[str, Any]]]]

KNOWN = load_known()
FOUND = programs()
PLAYS: list[Play] = [
    (scene, program) for scene in load_all() for program in (FOUND if scene.every_kubectl else FOUND[:1])
]
MISSING = pytest.param(None, marks=pytest.mark.skip("no kubectl in the assets or on the PATH"), id="none")
AT_ONCE = 3


def _name(play: Play) -> str:
    return f"{play[0].name}-{version_of(play[1])}"


@pytest.fixture(scope="module")
def playing(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Playing]:
    """All the scenes that were asked for, some at a time: kubectl mostly waits, or starts."""
    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and item.callspec.params["control_plane_kind"].create is type(control_plane)
    ]
    folder = tmp_path_factory.mktemp("kubectl")
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scene") as pool:
        yield {
            (scene.name, version_of(program)): pool.submit(
                play, scene, control_plane, program, folder / _name((scene, program))
            )
            for scene, program in wanted
            if all(control_plane.supports(Feature[need]) for need in scene.needs)
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", PLAYS or [MISSING], ids=_name)
def test_scene(case: Play, control_plane: ControlPlane, playing: Playing) -> None:
    scene, program = case
    control_plane.require(*(Feature[need] for need in scene.needs))
    version = version_of(program)
    expected = load_recorded(version, scene.name)
    if expected is None:
        pytest.skip(f"nothing recorded with kubectl {version}")
    actual = playing[scene.name, version].result()
    assert [each["kubectl"] for each in actual] == [each["kubectl"] for each in expected], "record it anew"
    differing = [found for pair in zip(expected, actual, strict=True) for found in _differences(*pair)]
    known = [each for each in KNOWN if each.where == f"kubectl: {scene.name}"]
    unknown = [text for path, text in differing if not any(each.covers(each.where, path) for each in known)]
    if unknown:
        pytest.fail("\n".join(unknown), pytrace=False)
    if isinstance(control_plane, DevclusterControlPlane):
        paths = [path for path, _ in differing]
        gone = [each.path for each in known if not any(each.covers(each.where, path) for path in paths)]
        assert not gone, f"no difference any more, yet in known_differences.yaml: {gone}"


def _differences(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Where the outputs of one command differ (`command: stream`), and how."""
    command = expected["kubectl"]
    for stream in ("stdout", "stderr", "exit"):
        left, right = expected.get(stream), actual.get(stream)
        if left != right:
            diff = list(difflib.unified_diff(_lines(left), _lines(right), "real", "this", lineterm=""))
            yield f"{command}: {stream}", "\n".join([f"\nkubectl {command}\n{stream}:", *diff[2:]])


def _lines(value: list[str] | int | None) -> list[str]:
    return value if isinstance(value, list) else [str(value or "")]
