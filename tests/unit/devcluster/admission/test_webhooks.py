from __future__ import annotations

from typing import Any

import pytest

from devcluster.admission.webhooks import patched_by
from devcluster.errors import StatusError

TOO_MUCH = "Unable to complete the copy, the accumulated size increase of copy is"


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (
            {"op": "copy", "from": "/data/big", "path": "/data/b"},
            f"{TOO_MUCH} 4000002, exceeding the limit 3145728",
        ),
        (
            {"op": "copy", "from": "/no/k", "path": "/data/b"},
            "copy operation does not apply: doc is missing from path: /no/k: missing value",
        ),
        (
            {"op": "copy", "from": "/data/k", "path": "/no/b"},
            "copy operation does not apply: doc is missing destination path: /no/b: missing value",
        ),
        (
            {"op": "copy", "path": "/data/b"},
            "copy operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            {"op": "move", "from": "/no/k", "path": "/data/b"},
            "move operation does not apply: doc is missing from path: /no/k: missing value",
        ),
        (
            {"op": "move", "from": "/data/no", "path": "/data/b"},
            "error in move for path: 'no': Unable to remove nonexistent key: no: missing value",
        ),
        (
            {"op": "move", "from": "/data/k", "path": "/no/b"},
            "move operation does not apply: doc is missing destination path: /no/b: missing value",
        ),
        ({"op": "join", "path": "/data/b"}, "Unexpected kind: join"),
    ],
)
def test_patched_by_names_the_reason_of_an_impossible_operation(operation: dict[str, Any], problem: str):
    with pytest.raises(StatusError) as raised:
        patched_by({"data": {"k": "v", "big": "x" * 4_000_000}}, [operation])
    assert raised.value.message == f"Internal error occurred: {problem}"
