from __future__ import annotations

import pytest

from manager_tools.chart import Image, InvalidImage

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("manager", Image("manager")),
        ("manager:0.1.0", Image("manager", "0.1.0")),
        ("local.test:5000/team/manager", Image("local.test:5000/team/manager")),
        ("local.test:5000/team/manager:v1", Image("local.test:5000/team/manager", "v1")),
        (f"team/manager:v1@{DIGEST}", Image("team/manager", "v1", DIGEST)),
        (f"manager@{DIGEST}", Image("manager", None, DIGEST)),
    ],
)
def test_image_parse_splits_repository_tag_and_digest_and_str_joins_them(text: str, image: Image):
    assert Image.parse(text) == image
    assert str(image) == text


@pytest.mark.parametrize(
    "text", ["", ":v1", "Manager", "manager:", "manager:a b", "manager@sha256:1", "a//", "-x"]
)
def test_image_parse_refuses_malformed_names(text: str):
    with pytest.raises(InvalidImage, match="is no image"):
        Image.parse(text)
