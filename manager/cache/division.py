"""Which range an object is in, and how the API server is asked for the objects of some ranges."""

from __future__ import annotations

from collections.abc import Iterable

from manager.api import GroupVersionKind
from manager.cache.record import Meta, Record
from manager.shards.ranges import Ranges, label_of, label_of_part, part_of, part_of_uid

PARTS = "part"
"""The index by parts of all ranges, as a label has them: what is held of some ranges is found by it."""


class Division:
    """How the objects of one kind are divided among ranges."""

    def part_of(self, meta: Meta) -> int | None:
        """The part that an object is in (see `part_of_uid`); None if it is in none."""
        raise NotImplementedError

    def index(self, record: Record, meta: Meta) -> Iterable[str]:
        """The function of the index `PARTS`."""
        raise NotImplementedError

    def query(self, ranges: Ranges) -> dict[str, str]:
        """What asks the server for the objects of these ranges; it may send others too."""
        raise NotImplementedError

    def takes(self, meta: Meta, ranges: Ranges) -> bool:
        """Whether an object is in one of these ranges."""
        return self.number_of(meta, ranges) in ranges.numbers

    def number_of(self, meta: Meta, ranges: Ranges) -> int | None:
        """The one of all ranges, these and others, that an object is in; None if it is in none."""
        part = self.part_of(meta)
        return None if part is None else ranges.number_of_part(part)


class ByUid(Division):
    """Objects that operators work on: by their own UIDs, which a server that can do so looks at."""

    def part_of(self, meta: Meta) -> int | None:
        """That of its UID."""
        return part_of_uid(meta.uid)

    @staticmethod
    def index(record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG004 - as every index function
        """The same, of a record."""
        return (label_of(record.uid),)

    def query(self, ranges: Ranges) -> dict[str, str]:
        """A selector that not every server heeds."""
        return {"shardSelector": ranges.selector}


class ByOwner(Division):
    """Children: by their label, which is of their owner's UID, and without one by the owner reference.

    The label comes first because the server selects by it: so what is held is what the watch tells of. What
    has none, and no owner of a kind that was added with `add`, is in no range.
    """

    def __init__(self, label: str) -> None:
        """`label` is the key."""
        self._label = label
        self._owners: set[tuple[str, str]] = set()

    def add(self, owner: GroupVersionKind) -> None:
        """Have children of that kind of objects too."""
        self._owners.add((owner.group, owner.kind))

    def part_of(self, meta: Meta) -> int | None:
        """That which its label names, or its owner's."""
        label = meta.labels.get(self._label)
        if label is not None and (part := part_of(label)) is not None:
            return part
        controller = meta.controller
        if controller is None:
            return None
        group, _, _ = controller.api_version.rpartition("/")
        return part_of_uid(controller.uid) if (group, controller.kind) in self._owners else None

    def index(self, record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG002 - as every index function
        """The part as a label."""
        part = self.part_of(meta)
        return () if part is None else (label_of_part(part),)

    def query(self, ranges: Ranges) -> dict[str, str]:
        """All that has not the label of other ranges, so also what has none."""
        others = ranges.others.labels
        return {"labelSelector": f"{self._label} notin ({','.join(others)})" if others else ""}
