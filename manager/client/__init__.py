"""Reading and writing of Kubernetes objects, for reconcilers and for your own programs."""

from __future__ import annotations

from manager.client.child_label import ChildLabel
from manager.client.client import Applied, Client, Outcome, Propagation, connect
from manager.client.errors import ApplyConflict, FieldConflict, NotCached, OwnedByOther, Undecodable
from manager.client.reader import LiveList, ObjectList

__all__ = [
    "Applied",
    "ApplyConflict",
    "ChildLabel",
    "Client",
    "FieldConflict",
    "LiveList",
    "NotCached",
    "ObjectList",
    "Outcome",
    "OwnedByOther",
    "Propagation",
    "Undecodable",
    "connect",
]
