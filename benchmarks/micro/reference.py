"""How fast the machine is just now."""

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
    """A fixed piece of work, about a millisecond of it: bytecode, small objects, dicts, and C on bytes.

    The same mixture that the measured code is of, so that whatever slows that down (another processor, a
    neighbour in its cache) slows this down alike. Never change it: saved figures are multiples of it.
    """
    total = 0
    for turn in range(_TURNS):
        document = orjson.loads(_DOCUMENT)
        groups: dict[str, list[int]] = {}
        for item in document["spec"]["items"]:
            groups.setdefault(item["text"] + str(item["value"] % 3), []).append(item["value"] + turn)
        total += len(orjson.dumps(groups)) + sum(len(group) for group in groups.values())
    return total
