from __future__ import annotations

from typing import get_args

import pytest

from apis.tutorial.v1.foo import Colour
from controllers.tutorial.foo import colour_of


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("", "red-orange"),
        ("kubernetes", "red-violet"),
        ("foo-01default", "yellow"),
        ("schön", "yellow"),
    ],
)
def test_the_colour_of_a_text_never_changes(text: str, colour: str):
    assert colour_of(text) == colour


def test_the_wheel_has_twelve_colours_and_each_is_as_likely():
    drawn = [colour_of(f"foo-{number}default") for number in range(12_000)]
    assert len(get_args(Colour)) == 12
    for colour in get_args(Colour):
        assert 850 < drawn.count(colour) < 1150
