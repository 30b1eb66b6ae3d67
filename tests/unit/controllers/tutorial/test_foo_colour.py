from __future__ import annotations

import pytest

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
def test_colour_of_a_text_never_changes(text: str, colour: str):
    assert colour_of(text) == colour
