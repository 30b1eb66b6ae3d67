"""The store: objects by key, a version for each change, a bounded history, watches, and a journal."""

from __future__ import annotations

from devcluster.storage.journal import Journal
from devcluster.storage.records import (
    Change,
    Exists,
    Expired,
    FutureVersion,
    Key,
    Missing,
    Overflow,
    Stored,
    VersionConflict,
)
from devcluster.storage.selectors import FieldSelector, LabelSelector, SelectorError
from devcluster.storage.store import Disk, Store, Watch

__all__ = [
    "Change",
    "Disk",
    "Exists",
    "Expired",
    "FieldSelector",
    "FutureVersion",
    "Journal",
    "Key",
    "LabelSelector",
    "Missing",
    "Overflow",
    "SelectorError",
    "Store",
    "Stored",
    "VersionConflict",
    "Watch",
]
