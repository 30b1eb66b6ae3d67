"""Which range an object is in, and how the API server is asked for the objects of some ranges."""

from __future__ import annotations

from manager.api import GroupVersionKind
from manager.cache.record import Meta, Record
from manager.shards.ranges import Ranges, part_of


class Division:
    """How the objects of one kind are divided among ranges."""

    def number_of(self, meta: Meta, ranges: Ranges) -> int | None:
        """The one of all ranges, these and others, that an object is in; None if it is in none."""
        raise NotImplementedError

    def query(self, ranges: Ranges) -> dict[str, str]:
        """What asks the server for the objects of these ranges; it may send others too."""
        raise NotImplementedError

    def takes(self, meta: Meta, ranges: Ranges) -> bool:
        """Whether an object is in one of these ranges."""
        return self.number_of(meta, ranges) in ranges.numbers

    def holds(self, record: Record, ranges: Ranges) -> bool:
        """The same, of a record."""
        return self.takes(record.meta(), ranges)


class ByUid(Division):
    """Objects that operators work on: by their own UIDs, which a server that can do so looks at."""

    def number_of(self, meta: Meta, ranges: Ranges) -> int | None:
        """The one of all ranges that its UID is in."""
        return ranges.number_of(meta.uid)

    def query(self, ranges: Ranges) -> dict[str, str]:
        """A selector that not every server heeds."""
        return {"shardSelector": ranges.selector}

    def holds(self, record: Record, ranges: Ranges) -> bool:
        """Without decoding the metadata: when ranges change, every record is asked about."""
        return record.uid in ranges


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

    def number_of(self, meta: Meta, ranges: Ranges) -> int | None:
        """The one of all ranges that its label names, or that its owner's UID is in."""
        label = meta.labels.get(self._label)
        if label is not None and (part := part_of(label)) is not None:
            return ranges.number_of_part(part)
        controller = meta.controller
        if controller is None:
            return None
        group, _, _ = controller.api_version.rpartition("/")
        return ranges.number_of(controller.uid) if (group, controller.kind) in self._owners else None

    def query(self, ranges: Ranges) -> dict[str, str]:
        """All that has not the label of other ranges, so also what has none."""
        others = ranges.others.labels
        return {"labelSelector": f"{self._label} notin ({','.join(others)})" if others else ""}
