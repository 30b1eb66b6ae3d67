from __future__ import annotations

import pytest

from manager.util.program import Program


def test_program_derives_labels_user_agent_and_name_prefix_from_its_name():
    program = Program("green-house", "2.1")
    assert program.agent == "green-house/2.1"
    assert program.prefix == "green-house-"
    assert program.variables == "GREEN_HOUSE_"
    assert program.entry_points == "green_house.operators"
    assert program.labels == {"app.kubernetes.io/name": "green-house"}


@pytest.mark.parametrize("name", ["", "Green", "green_house", "green house", "-green", "2", "g" * 41])
def test_program_refuses_a_name_that_is_not_a_dns_1035_label_of_at_most_40_characters(name: str):
    with pytest.raises(ValueError, match=r"cannot name a program: lower-case words joined by '-'"):
        Program(name, "1")
