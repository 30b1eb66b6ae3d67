"""A peer's properties, known before the suite runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.program import Program


class LeftOutError(Exception):
    """The peer cannot be measured here; the message says why, for the page: "cargo is not on the PATH"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A peer that has been built."""

    program: Program
    version: str
    """The versions of library and language for the page, such as "kube-rs 5.0.0, rustc 1.95.0"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A row of the tables.

    A library with two settings is two peers, which share a build.
    """

    name: str
    """The name in the tables and for `--peers`: lower case, without spaces and commas."""
    make: Callable[[], Ready]
    """Builds the program if its sources have changed. Raises LeftOutError."""
    about: str
    """A half-sentence about the peer for the page."""
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The parts and workloads of the suite that it is not measured in, and why, for the page."""
