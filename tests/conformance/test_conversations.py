"""The answers of each control plane are those that the real server gave when they were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.conversation import load_all
from tests.conformance.differences import differences, load_known
from tests.conformance.player import play
from tests.conformance.recorded import load_recorded
from tests.support.control_plane import Feature
from tests.support.devcluster_plane import DevclusterControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.conversation import Conversation
    from tests.conformance.differences import Known
    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.contract

KNOWN = [each for each in load_known() if not each.where.startswith("kubectl:")]
CONVERSATIONS = load_all()


@pytest.fixture(scope="module")
def met() -> Iterator[dict[str, list[Known]]]:
    """By the conversations held with devcluster, the known differences met: all, when all were held."""
    held: dict[str, list[Known]] = {}
    yield held
    if len(held) == len(CONVERSATIONS):
        seen = [known for found in held.values() for known in found]
        gone = [f"{known.where}, {known.path}" for known in KNOWN if known not in seen]
        assert not gone, f"no difference any more, yet in known_differences.yaml: {gone}"


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.id)
def test_conversation(
    conversation: Conversation, control_plane: ControlPlane, met: dict[str, list[Known]]
) -> None:
    control_plane.require(*(Feature[need] for need in conversation.needs))
    recorded = load_recorded(conversation.file).get(conversation.name)
    assert recorded is not None, "not recorded yet: python -m tests.conformance.recorded"
    answers = play(conversation, control_plane)
    found = dict(differences(_by_number(recorded), _by_number(answers)))
    covering = {path: [each for each in KNOWN if each.covers(conversation.id, path)] for path in found}
    if isinstance(control_plane, DevclusterControlPlane):
        met[conversation.id] = [each for known in covering.values() for each in known]
    unknown = [text for path, text in found.items() if not covering[path]]
    assert not unknown, "\n".join(unknown)


def _by_number(answers: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    """By the number of their step."""
    return {str(answer["step"]).partition(":")[0]: answer for answer in answers}
