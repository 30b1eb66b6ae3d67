"""Recordings match the current cases and contain each known difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import conversation
from tests.conformance.differences import KNOWN
from tests.conformance.kubectl import scene
from tests.recordings import ANSWERS, CASES, load_answers
from tests.recordings.parts import PARTS, Part
from tests.recordings.types import PROTOBUF
from tests.support.control_plane import Feature
from tests.support.devcluster_plane import DevclusterControlPlane

AGAIN = "make record"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_recorded_answers_match_the_cases_one_to_one(part: Part):
    answers = load_answers(part.name)
    assert list(answers) == list(part.cases), AGAIN
    for name, labels in part.cases.items():
        assert labels is None or list(answers[name]) == labels, AGAIN


def test_recorded_answer_files_match_the_case_files_one_to_one():
    def names(folder: Path) -> set[str]:
        return {str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*")}

    assert names(CASES) == names(ANSWERS) == {part.name for part in PARTS}


def test_known_differences_name_only_compared_areas(tmp_path: Path):
    needs = {part.name: part.needs for part in PARTS if part.bare}
    needs |= {each.id: each.needs for each in conversation.load_all()}
    needs |= {f"kubectl: {each.name}": each.needs for each in scene.load_all()}
    devcluster = DevclusterControlPlane(tmp_path)
    compared = {
        where for where, names in needs.items() if all(devcluster.supports(Feature[name]) for name in names)
    }
    assert needs.keys() - compared == {PROTOBUF}
    assert {each.where for each in KNOWN} <= compared
