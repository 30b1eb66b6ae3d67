"""How a migration goes about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MigrationOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """What a person may choose; the defaults are kind to a small API server.

    Attributes:
        page_size: objects that are listed at once; an interrupted run goes on at the begin of a page.
        concurrency: objects that are being written at the same time.
        rate: objects a second at most.
        settle: seconds to wait before the first is written, because each API server learns of a new
            storage version by itself, and stores the old one until then.
        dry_run: the server tries everything and stores nothing.
    """

    page_size: int = 500
    concurrency: int = 8
    rate: float = 200.0
    settle: float = 5.0
    dry_run: bool = False
