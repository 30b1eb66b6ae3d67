from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from apis.myapp.v1alpha1.mysrv import MySrvSpec


@pytest.mark.parametrize(("name", "port"), [("C", 1), ("C" * 63, 65535), ("\N{GRINNING FACE}" * 63, 80)])
def test_the_bounds_belong_to_it(name: str, port: int):
    spec = MySrvSpec(name=name, port=port)
    assert (spec.name, spec.port) == (name, port)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": None}, "port"),
        ({"port": 80.5}, "port"),
        ({"name": ""}, "name"),
        ({"name": "C" * 64}, "name"),
        ({"name": 80}, "name"),
    ],
)
def test_beyond_them_it_is_refused(changed: dict[str, Any], field: str):
    with pytest.raises(ValidationError, match=field):
        MySrvSpec.model_validate({"name": "CloudCMP", "port": 80, **changed})
