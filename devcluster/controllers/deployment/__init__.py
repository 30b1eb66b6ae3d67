"""Deployments: a ReplicaSet for each revision of the pod template, and the rollout between revisions."""

from __future__ import annotations

from devcluster.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
