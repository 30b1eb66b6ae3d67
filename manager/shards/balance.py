"""The owner that each shard should have: decided by each replica alone, and by all alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def balance(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """Return the member that should hold each of `count` shards, given the present `holders` of some of them.

    All members get equally many, or one more, and as few shards as possible change hands. The answer depends
    on the arguments alone, so replicas that see the same want the same. Where they do not, two may want one
    shard for a while, or none does: the Lease decides the first, and the next look the second. Without
    members no shard should have a holder.
    """
    if not members:
        return {}
    held: dict[str, list[int]] = {member: [] for member in members}
    free = []
    for number in range(count):
        holder = holders.get(number)
        if holder in held:
            held[holder].append(number)
        else:
            free.append(number)
    share, larger = divmod(count, len(held))
    wanted = {}
    lacking = []
    # The larger shares are for members that would give up less with them. The number that a member has makes
    # no other difference: so the answer stays the same while it comes about.
    for place, member in enumerate(sorted(held, key=lambda each: (len(held[each]) <= share, each))):
        size = share + (place < larger)
        numbers = held[member]
        wanted.update(dict.fromkeys(numbers[:size], member))
        free += numbers[size:]
        lacking += [member] * (size - len(numbers))
    wanted.update(zip(sorted(free), lacking, strict=True))
    return wanted
