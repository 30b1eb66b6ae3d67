"""What a Deployment's status says of its pods."""

from __future__ import annotations

from typing import NamedTuple

from manager.api.apps_v1 import Deployment

__all__ = ["Failure", "failure_of", "is_available", "is_rolled_out"]


class Failure(NamedTuple):
    """What keeps a Deployment from becoming what is wanted: a word for programs, a sentence for people."""

    reason: str
    message: str


def is_available(deployment: Deployment) -> bool:
    """True when it says that enough of its pods are up."""
    return any(each.type == "Available" and each.status == "True" for each in deployment.status.conditions)


def is_rolled_out(deployment: Deployment, size: int) -> bool:
    """True when all replicas are of the latest spec, ready, and as many as wanted."""
    status = deployment.status
    seen = status.observed_generation >= (deployment.metadata.generation or 0)
    return seen and status.replicas == status.updated_replicas == status.ready_replicas == size


def failure_of(deployment: Deployment) -> Failure | None:
    """Why it does not get on: its pods are refused, or do not become ready in time; None while it does."""
    theirs = {each.type: each for each in deployment.status.conditions}
    refused, progress = theirs.get("ReplicaFailure"), theirs.get("Progressing")
    if refused is not None and refused.status == "True":
        return Failure(refused.reason or "ReplicaFailure", refused.message)
    if progress is not None and progress.status == "False":
        return Failure(progress.reason or "NotProgressing", progress.message)
    return None
