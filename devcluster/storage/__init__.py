"""Store: objects by key, a version for each change, a bounded history, watches, and a journal."""

from __future__ import annotations

from devcluster.storage.journal import Journal
from devcluster.storage.records import Change, Key, Stored
from devcluster.storage.store import Disk, Store

__all__ = ["Change", "Disk", "Journal", "Key", "Store", "Stored"]
