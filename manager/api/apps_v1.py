"""Kinds of apps/v1: as far as operators and their clients use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import Field

from manager.api import ApiModel, Resource

__all__ = ["Deployment", "DeploymentCondition", "DeploymentFailure", "DeploymentStatus"]


class DeploymentCondition(ApiModel):
    """One aspect of a Deployment's state: Available, Progressing or ReplicaFailure."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class DeploymentStatus(ApiModel):
    """A Deployment's state. Counts that the server leaves out are 0."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: list[DeploymentCondition] = Field(default_factory=list)


class DeploymentFailure(NamedTuple):
    """What keeps a Deployment from becoming what is wanted: a word for programs, a sentence for people."""

    reason: str
    message: str


class Deployment(Resource, group="apps", version="v1", plural="deployments"):
    """Keeps a number of pods running."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DeploymentStatus = Field(default_factory=DeploymentStatus)

    @property
    def is_available(self) -> bool:
        """Whether it says that enough of its pods are up."""
        return any(each.type == "Available" and each.status == "True" for each in self.status.conditions)

    def is_rolled_out(self, size: int) -> bool:
        """Whether all replicas are of the latest spec, ready, and as many as `size`."""
        status = self.status
        seen = status.observed_generation >= (self.metadata.generation or 0)
        return seen and status.replicas == status.updated_replicas == status.ready_replicas == size

    @property
    def failure(self) -> DeploymentFailure | None:
        """Why it does not get on: its pods are refused, or do not become ready in time; None if it does."""
        theirs = {each.type: each for each in self.status.conditions}
        refused, progress = theirs.get("ReplicaFailure"), theirs.get("Progressing")
        if refused is not None and refused.status == "True":
            return DeploymentFailure(refused.reason or "ReplicaFailure", refused.message)
        if progress is not None and progress.status == "False":
            return DeploymentFailure(progress.reason or "NotProgressing", progress.message)
        return None

    def conditions_for(self, size: int) -> Iterator[tuple[str, bool, str, str]]:
        """The conditions of an object whose work this Deployment does: what `ctx.condition` takes.

        They are Available, Progressing (until `size` replicas are rolled out) and Degraded (see `failure`),
        each with its status, reason and message.
        """
        progress = f"{self.status.ready_replicas} of {size} replicas are ready"
        available, rolled_out, failure = self.is_available, self.is_rolled_out(size), self.failure
        yield "Available", available, "EnoughReady" if available else "NotEnoughReady", progress
        yield "Progressing", not rolled_out, "RolledOut" if rolled_out else "RollingOut", progress
        yield "Degraded", failure is not None, *(failure or ("AsExpected", ""))
