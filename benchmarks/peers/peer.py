"""What the suite knows of a peer before it runs."""

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
    """For the page: the library's and the language's, as "kube-rs 5.0.0, rustc 1.95.0"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One row of the tables.

    A library measured with two settings is two peers, which share a build.
    """

    name: str
    """In the tables and for `--peers`: lower case, no spaces or commas."""
    make: Callable[[], Ready]
    """Builds it if its sources have changed. Raises LeftOutError."""
    about: str
    """What it is, in half a sentence for the page."""
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The parts and workloads of the suite that it is not measured in, and why, for the page."""
