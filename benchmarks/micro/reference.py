"""The machine's current speed."""

from __future__ import annotations

import orjson

_DOCUMENT = orjson.dumps(
    {
        "metadata": {"name": "reference", "labels": {f"label-{index}": "value" for index in range(8)}},
        "spec": {
            "items": [{"name": f"item-{index}", "value": index, "text": "x" * 40} for index in range(24)]
        },
    }
)
_TURNS = 40


def reference() -> int:
    """Do a fixed piece of work of about a millisecond: bytecode, small objects, dicts, and C code on bytes.

    The mixture resembles the measured code, so that a slower processor or a busy neighbour slows both alike.
    Never change it: saved figures are multiples of it.
    """
    total = 0
    for turn in range(_TURNS):
        document = orjson.loads(_DOCUMENT)
        groups: dict[str, list[int]] = {}
        for item in document["spec"]["items"]:
            groups.setdefault(item["text"] + str(item["value"] % 3), []).append(item["value"] + turn)
        total += len(orjson.dumps(groups)) + sum(len(group) for group in groups.values())
    return total
