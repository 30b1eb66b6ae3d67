"""Shards: the division of objects among replicas. Imported only if `--shards` is set."""

from __future__ import annotations

from manager_shards.coordinator import ShardCoordinator
from manager_shards.owned import OwnedShards

__all__ = ["OwnedShards", "ShardCoordinator"]
