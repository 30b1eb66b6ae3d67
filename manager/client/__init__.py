"""Reading and writing Kubernetes objects from reconcilers."""

from __future__ import annotations

from manager.client.client import Client, Propagation
from manager.client.errors import NotCached, OwnedByOther, Undecodable
from manager.client.outcome import Applied, Outcome

__all__ = ["Applied", "Client", "NotCached", "Outcome", "OwnedByOther", "Propagation", "Undecodable"]
