from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from apis.tutorial.v1.foo import Foo, FooSpec


def test_unhappy_is_not_the_same_as_not_seen_yet():
    foo = Foo(spec=FooSpec(name="jack"))
    assert "happy" not in foo.to_wire()["status"]
    foo.status.happy = False
    assert foo.to_wire()["status"]["happy"] is False


@pytest.mark.parametrize("name", ["j", "j" * 253, "\N{GRINNING FACE}" * 253, "Jack O'Neill"])
def test_a_name_of_1_to_253_characters_is_a_name(name: str):
    assert FooSpec(name=name).name == name


@pytest.mark.parametrize("spec", [{}, {"name": ""}, {"name": "j" * 254}, {"name": None}, {"name": 5}])
def test_anything_else_is_none(spec: dict[str, Any]):
    with pytest.raises(ValidationError, match="name"):
        FooSpec.model_validate(spec)
