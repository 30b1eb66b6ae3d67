"""The answers of each control plane are those that the real server gave when they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.conversation import load_all
from tests.conformance.differences import complaints, differences
from tests.conformance.player import play
from tests.recordings import load_answers
from tests.support.control_plane import Feature
from tests.support.devcluster_plane import DevclusterControlPlane

if TYPE_CHECKING:
    from tests.conformance.conversation import Conversation
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
