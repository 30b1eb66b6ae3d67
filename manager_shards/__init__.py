"""Shards: the division of objects among replicas. `run` imports it only with `--shards`."""

from __future__ import annotations

from manager_shards.coordinator import ShardCoordinator
from manager_shards.owned import OwnedShards

__all__ = ["OwnedShards", "ShardCoordinator"]
