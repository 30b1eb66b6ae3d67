"""What a reconciler is asked to look at."""

from __future__ import annotations

from manager.api import ObjectKey

__all__ = ["Request"]

Request = ObjectKey
"""The key of the object to reconcile; it says nothing about what happened, only where to look."""
