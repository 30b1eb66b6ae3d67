"""kubectl output with each control plane, compared with the output recorded from a real API server."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.differences import complaints
from tests.conformance.kubectl.scene import Scene, load_all
from tests.conformance.kubectl.stage import play, printed, programs, version_of
from tests.recordings import kubectl_versions, load_answers
from tests.support.control_plane import ControlPlane, Feature
from tests.support.devcluster_plane import DevclusterControlPlane

Play = tuple[Scene, "Path"]
Playing = dict[tuple[str, str], Future[dict[str, Any]]]

FOUND = programs()
MISSING = pytest.param(None, marks=pytest.mark.skip("no kubectl in the assets or on the PATH"), id="none")
AT_ONCE = 3


def _name(play: Play) -> str:
    return f"{play[0].name}-{version_of(play[1])}"


# One scene is enough for `make test`.
QUICK = "deleting"
# devcluster's output is compared with the recordings; a few scenes with the real server check them.
PLAYS = [
    pytest.param(
        (scene, program),
        marks=[
            *[pytest.mark.contract] * scene.contract,
            *[pytest.mark.long] * (scene.name != QUICK),
            *[pytest.mark.whole] * (program is not FOUND[0]),
        ],
        id=_name((scene, program)),
    )
    for scene in load_all()
    for program in (FOUND if scene.every_kubectl else FOUND[:1])
]


@pytest.fixture(scope="module")
def playing(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Playing]:
    """Run all selected scenes, several at a time, because kubectl mostly waits; yield their outputs."""
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


@pytest.mark.parametrize("case", PLAYS or [MISSING])
def test_kubectl_output_is_equal_to_the_recording_from_a_real_api_server(
    case: Play, control_plane: ControlPlane, playing: Playing
):
    scene, program = case
    control_plane.require(*(Feature[need] for need in scene.needs))
    version = version_of(program)
    if version not in kubectl_versions():
        pytest.skip(f"nothing recorded with kubectl {version}")
    expected, actual = printed(load_answers(scene.part), version), playing[scene.name, version].result()
    assert list(actual) == list(expected), "make record ARGS=--only=kubectl"
    found = {
        path: text for label in expected for path, text in _differences(label, expected[label], actual[label])
    }
    wrong = complaints(
        f"kubectl: {scene.name}", found, of_devcluster=isinstance(control_plane, DevclusterControlPlane)
    )
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def _differences(label: str, expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield `LABEL.STREAM` and a diff for each output stream of the command that differs."""
    for stream in ("stdout", "stderr", "exit"):
        left, right = expected.get(stream), actual.get(stream)
        if left != right:
            diff = list(difflib.unified_diff(_lines(left), _lines(right), "real", "this", lineterm=""))
            yield f"{label}.{stream}", "\n".join([f"\nkubectl {label}\n{stream}:", *diff[2:]])


def _lines(value: list[str] | int | None) -> list[str]:
    return value if isinstance(value, list) else [str(value or "")]
