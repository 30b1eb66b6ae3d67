"""The queue between a controller's sources and its workers."""

from __future__ import annotations

from manager.controller.queue.items import QueueItem
from manager.controller.queue.metrics import QueueStatistics
from manager.controller.queue.work_queue import WorkQueue

__all__ = ["QueueItem", "QueueStatistics", "WorkQueue"]
