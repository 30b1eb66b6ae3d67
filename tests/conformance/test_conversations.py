"""The answers of each control plane are those that the real server gave when they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.conversation import load_all
from tests.conformance.differences import differences, load_known
from tests.conformance.player import play
from tests.conformance.recorded import load_recorded
from tests.support.control_plane import Feature

if TYPE_CHECKING:
    from tests.conformance.conversation import Conversation
    from tests.support.control_plane import ControlPlane

KNOWN = load_known()


@pytest.mark.parametrize("conversation", load_all(), ids=lambda each: each.id)
def test_conversation(conversation: Conversation, control_plane: ControlPlane) -> None:
    control_plane.require(*(Feature[need] for need in conversation.needs))
    recorded = load_recorded(conversation.file).get(conversation.name)
    assert recorded is not None, "not recorded yet: python -m tests.conformance.recorded"
    answers = play(conversation, control_plane)
    found = dict(differences(_by_number(recorded), _by_number(answers)))
    unknown = [
        text
        for path, text in found.items()
        if not any(known.covers(conversation.id, path) for known in KNOWN)
    ]
    assert not unknown, "\n".join(unknown)


def _by_number(answers: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    """By the number of their step."""
    return {str(answer["step"]).partition(":")[0]: answer for answer in answers}
