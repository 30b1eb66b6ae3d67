"""Answers of each control plane, compared with the recorded answers of a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.conversation import Conversation, load_all
from tests.conformance.differences import complaints, differences
from tests.conformance.player import play
from tests.conftest import StartControlPlane
from tests.recordings import load_answers
from tests.recordings.parts import PARTS, Part
from tests.recordings.shards import UIDS
from tests.support.control_plane import ControlPlane, Feature
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import BARE

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("conversation", load_all(), ids=lambda each: each.id)
def test_each_control_plane_answers_a_request_sequence_as_recorded_from_a_real_api_server(
    conversation: Conversation, control_plane: ControlPlane
):
    control_plane.require(*(Feature[need] for need in conversation.needs))
    recorded = load_answers(conversation.part)[conversation.name]
    of_devcluster = isinstance(control_plane, DevclusterControlPlane)
    # Only the real server may need time until its answers are the recorded ones.
    answers = play(conversation, control_plane, recorded=None if of_devcluster else recorded)
    found = dict(differences(recorded, answers))
    wrong = complaints(conversation.id, found, of_devcluster=of_devcluster)
    assert not wrong, "\n".join(wrong)


ASKED = [each for each in PARTS if each.bare]


@pytest.mark.parametrize("part", [each for each in ASKED if not each.flags], ids=lambda part: part.name)
def test_control_plane_without_controllers_gives_the_answers_recorded_from_a_real_api_server(
    part: Part, bare_control_plane: ControlPlane, tmp_path: Path
):
    bare_control_plane.require(*(Feature[need] for need in part.needs))
    _answers_as_recorded(part, bare_control_plane, tmp_path)


@pytest.mark.parametrize("part", [each for each in ASKED if each.flags], ids=lambda part: part.name)
def test_api_server_with_extra_flags_gives_the_answers_recorded_from_a_real_api_server(
    part: Part, own_control_plane: StartControlPlane, tmp_path: Path
):
    plane = own_control_plane(parts=BARE, apiserver_flags=part.flags)
    _answers_as_recorded(part, plane, tmp_path)


def _answers_as_recorded(part: Part, plane: ControlPlane, folder: Path) -> None:
    recorded, found_now = load_answers(part.name), part.record(plane, folder)
    for answers in (recorded, found_now):
        answers.pop(UIDS, None)  # UIDs differ in each server
    found = dict(differences(recorded, found_now))
    wrong = complaints(part.name, found, of_devcluster=isinstance(plane, DevclusterControlPlane))
    assert not wrong, "\n".join(wrong)
