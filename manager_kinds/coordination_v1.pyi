# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import TypedDict

from manager.api import Resource
from manager_kinds.factory import Part

__all__ = ["Lease", "LeaseSpec", "LeaseSpecDict"]

class Lease(Resource, group="coordination.k8s.io", version="v1", plural="leases"):
    """Lease of coordination.k8s.io/v1."""

    spec: LeaseSpecDict = {}

class LeaseSpec(Part[LeaseSpecDict]):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None

class LeaseSpecDict(TypedDict, total=False):
    holderIdentity: str
    leaseDurationSeconds: int
    acquireTime: str
    renewTime: str
    leaseTransitions: int
    strategy: str
    preferredHolder: str
