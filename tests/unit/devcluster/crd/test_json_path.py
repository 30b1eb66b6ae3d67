from __future__ import annotations

from typing import Any

import pytest

from devcluster.crd.json_path import find, nested

OBJ: dict[str, Any] = {"spec": {"size": 3}}


def test_find_returns_no_value_for_an_invalid_json_path():
    assert find(OBJ, ".spec[") == []


@pytest.mark.parametrize(("path", "found"), [(".spec.size", 3), (".spec.x.b", None), (".spec.size.b", None)])
def test_nested_returns_the_value_at_a_simple_path(path: str, found: int | None):
    assert nested(OBJ, path) == found
