"""Who is to hold which range: decided by each replica alone, and by all alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def balance(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """The member that is to hold each of `count` ranges, given those that hold some of them now.

    Each gets its share, equal to one range, and as few ranges as possible change hands. The answer depends
    on nothing but what is passed, so replicas that see the same want the same. Where they do not, two may
    want one range for a while, or none does: the Lease decides the first, and the next look the second.
    Without members nobody is to hold anything.
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
    # The larger shares are for those who would give up less with them. How much somebody has makes no other
    # difference: so what is wanted stays the same while it comes about.
    for place, member in enumerate(sorted(held, key=lambda each: (len(held[each]) <= share, each))):
        size = share + (place < larger)
        numbers = held[member]
        wanted.update(dict.fromkeys(numbers[:size], member))
        free += numbers[size:]
        lacking += [member] * (size - len(numbers))
    wanted.update(zip(sorted(free), lacking, strict=True))
    return wanted
