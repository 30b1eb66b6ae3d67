"""Kinds of apps/v1: as far as operators and their clients use them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from manager.api import ApiModel, Resource

__all__ = ["Deployment", "DeploymentCondition", "DeploymentStatus"]


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


class Deployment(Resource, group="apps", version="v1", plural="deployments"):
    """Keeps a number of pods running."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DeploymentStatus = Field(default_factory=DeploymentStatus)
