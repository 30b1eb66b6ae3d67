"""Shards: equal ranges of the hashes of UIDs, into which all objects are divided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from manager.client.child_label import HASH_BITS, LABEL_SLICES, hash_of, label_of_slice

_is_label = re.compile("[0-9a-f]{2}").fullmatch


def slice_of_label(label: str) -> int | None:
    """Return the number of the hash slice that a shard label's value names; None for any other text."""
    return int(label, 16) if _is_label(label) else None


def check_count(count: int) -> None:
    """Raise ValueError unless the objects can be divided into `count` shards."""
    if not 1 <= count <= LABEL_SLICES or count & (count - 1):
        raise ValueError(f"must be a power of two from 1 to {LABEL_SLICES}, not {count}")


@dataclass(frozen=True, slots=True)
class ShardSet:
    """A selection from `count` equal shards by their numbers, such as the shards of one replica."""

    count: int
    numbers: frozenset[int]

    @classmethod
    def of(cls, count: int, numbers: Iterable[int]) -> ShardSet:
        """Select shards by their numbers; raise ValueError for an invalid count or number."""
        check_count(count)
        held = frozenset(numbers)
        if beyond := sorted(each for each in held if not 0 <= each < count):
            raise ValueError(f"there is no shard {beyond[0]} among {count}")
        return cls(count, held)

    @property
    def everything(self) -> bool:
        """Return whether all shards are selected."""
        return len(self.numbers) == self.count

    def number_of(self, uid: str) -> int:
        """Return the number of the shard, selected or not, that contains the object with that UID."""
        return hash_of(uid) * self.count >> HASH_BITS

    def number_of_slice(self, number: int) -> int:
        """Return the number of the shard, selected or not, that contains a slice."""
        return number * self.count // LABEL_SLICES

    def __contains__(self, uid: str) -> bool:
        return self.everything or self.number_of(uid) in self.numbers

    def __and__(self, other: ShardSet) -> ShardSet:
        return ShardSet(self.count, self.numbers & other.numbers)

    def __or__(self, other: ShardSet) -> ShardSet:
        return ShardSet(self.count, self.numbers | other.numbers)

    def __sub__(self, other: ShardSet) -> ShardSet:
        return ShardSet(self.count, self.numbers - other.numbers)

    @property
    def selector(self) -> str:
        """Return the `shardSelector` for a list or a watch; empty if all shards are selected.

        It is also empty if no shard is selected; the caller then must not send the request.
        """
        if self.everything:
            return ""
        return " || ".join(
            f"shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')"
            for start, end in self._joined()
        )

    @property
    def others(self) -> ShardSet:
        """Return the shards that are not selected."""
        return ShardSet(self.count, frozenset(range(self.count)) - self.numbers)

    @property
    def labels(self) -> list[str]:
        """Return the values of the children's label for the selected shards."""
        return [
            label_of_slice(each) for each in range(LABEL_SLICES) if self.number_of_slice(each) in self.numbers
        ]

    def _joined(self) -> Iterator[tuple[int, int]]:
        size = (1 << HASH_BITS) // self.count
        for inside, group in groupby(range(self.count), self.numbers.__contains__):
            first, *others = group
            if inside:
                yield first * size, (first + len(others) + 1) * size
