"""What is found in the memory of a process, as whoever may read it would find it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WIPED = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
}
"""Variables with which glibc overwrites memory as it is freed: what a search finds then is still in use."""


def words_in_memory(pid: int, words: Iterable[str]) -> set[str]:
    """Which of `words` stand anywhere in a process's memory."""
    wanted = {word: word.encode() for word in words}
    return {word for block in _blocks(pid) for word, text in wanted.items() if text in block}


def _blocks(pid: int) -> Iterator[bytes]:
    folder = Path("/proc") / str(pid)
    maps = (folder / "maps").read_text().splitlines()
    with (folder / "mem").open("rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_, name = line.split()
            if not rights.startswith("r") or name in {"[vvar]", "[vvar_vclock]", "[vsyscall]"}:
                continue
            first, end = (int(address, 16) for address in span.split("-"))
            try:
                memory.seek(first)
                # One read gives at most 2 GB, and may give less than was asked for.
                yield memory.read(end - first)
            except OSError:
                continue  # unmapped since, or not backed by anything
