"""Parts of objects: the paths that name them, and the JSON that is left when the rest is dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

# A name, in which a backslash takes the meaning from a dot, and whether each item of a list counts.
_STEP = re.compile(r"(?P<name>(?:[^.\[\]\\]|\\.)+)(?P<each>\[\*\])?(?:\.(?=.)|$)")

_Tree: TypeAlias = dict[str, "_Tree"]

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def steps_on(path: str) -> tuple[tuple[str, bool], ...]:
    """Return the names on a path, and for each whether every item of a list counts (see `index_by`).

    Raises ValueError for what is not a path.
    """
    steps: list[tuple[str, bool]] = []
    position = 0
    while position < len(path) or not steps:
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"not a path: {path!r}, at {path[position:]!r}")
        steps.append((re.sub(r"\\(.)", r"\1", match["name"]), match["each"] is not None))
        position = match.end()
    return tuple(steps)


class Parts:
    """The kept parts of an object: its metadata, and the values at some paths, such as `status.phase`.

    Raises ValueError for what is not a path.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        whole: _Tree = {}
        self._tree: _Tree = {"apiVersion": whole, "kind": whole, "metadata": whole}
        # The shorter ones first: a part that is kept whole has no parts of its own.
        for steps in sorted(map(steps_on, paths), key=len):
            at = self._tree
            for name, _ in steps[:-1]:
                if name in at and not at[name]:
                    break
                at = at.setdefault(name, {})
            else:
                at.setdefault(steps[-1][0], {})

    def of(self, raw: bytes) -> bytes:
        """Return an object's JSON without the rest. A value of another shape than a path expects stays.

        Raises msgspec.DecodeError for what is no JSON object.
        """
        return _prune(raw.strip(), self._tree)


def _prune(raw: bytes, tree: _Tree) -> bytes:
    """Keep the members of an object, or of each object in a list, that a tree names."""
    if raw[:1] == b"[":
        return b"[%b]" % b",".join([_prune(bytes(each), tree) for each in _decode_list(raw)])
    if raw[:1] != b"{":
        return raw
    members = _decode_object(raw)
    return b"{%b}" % b",".join(
        [
            b"%b:%b"
            % (msgspec.json.encode(name), _prune(bytes(members[name]), below) if below else members[name])
            for name, below in tree.items()
            if name in members
        ]
    )
