"""Recorded answers of a real server: each belongs to a request of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recordings import ANSWERS, CASES, load_answers
from tests.recordings.parts import PARTS, Part

AGAIN = "make record"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_request_case_has_a_recorded_answer_and_every_answer_has_a_case(part: Part):
    answers = load_answers(part.name)
    assert list(answers) == list(part.cases), AGAIN
    for name, labels in part.cases.items():
        assert labels is None or list(answers[name]) == labels, AGAIN


def test_every_file_of_request_cases_has_a_file_of_recorded_answers_and_vice_versa():
    def names(folder: Path) -> set[str]:
        return {str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*")}

    assert names(CASES) == names(ANSWERS) == {part.name for part in PARTS}
