from __future__ import annotations

from typing import Any

import pytest

from manager.api.secret import fold_string_data


@pytest.mark.parametrize(
    ("wire", "folded"),
    [
        ({"stringData": {"a": "1"}}, {"data": {"a": "MQ=="}}),
        (
            {"stringData": {"a": "1"}, "data": {"a": "Mg==", "b": "Mw=="}},
            {"data": {"a": "MQ==", "b": "Mw=="}},
        ),
        ({"stringData": {"a": "ä"}, "data": None}, {"data": {"a": "w6Q="}}),
        ({"stringData": {"a": 1}}, {"stringData": {"a": 1}}),
        ({"data": {"a": "MQ=="}}, {"data": {"a": "MQ=="}}),
    ],
)
def test_fold_string_data_leaves_to_the_server_what_is_not_text(wire: dict[str, Any], folded: dict[str, Any]):
    assert fold_string_data(wire) == folded
