"""The answers of each control plane are those that the real server gave when they were recorded.

But for what is known to differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.conversation import load_all
from tests.conformance.differences import complaints, differences
from tests.conformance.player import play
from tests.recordings import load_answers
from tests.recordings.parts import PARTS
from tests.recordings.types import PROTOBUF
from tests.support.control_plane import Feature
from tests.support.devcluster_plane import DevclusterControlPlane

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.conversation import Conversation
    from tests.recordings.parts import Part
    from tests.support.control_plane import ControlPlane
pytestmark = pytest.mark.contract


@pytest.mark.parametrize("conversation", load_all(), ids=lambda each: each.id)
def test_conversation(conversation: Conversation, control_plane: ControlPlane) -> None:
    control_plane.require(*(Feature[need] for need in conversation.needs))
    recorded = load_answers(conversation.part)[conversation.name]
    found = dict(differences(recorded, play(conversation, control_plane)))
    wrong = complaints(
        conversation.id, found, of_devcluster=isinstance(control_plane, DevclusterControlPlane)
    )
    assert not wrong, "\n".join(wrong)


# devcluster gives nothing in protobuf.
ASKED = [each for each in PARTS if each.bare and each.name != PROTOBUF]


@pytest.mark.parametrize("part", ASKED, ids=lambda part: part.name)
def test_a_recorded_answer_is_what_the_server_says(
    part: Part, bare_control_plane: ControlPlane, tmp_path: Path
) -> None:
    found = dict(differences(load_answers(part.name), part.record(bare_control_plane, tmp_path)))
    wrong = complaints(part.name, found, of_devcluster=isinstance(bare_control_plane, DevclusterControlPlane))
    assert not wrong, "\n".join(wrong)
